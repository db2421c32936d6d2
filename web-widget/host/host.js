// A host as small as one can be: it keeps a token, writes files, builds, and leaves the rest to the task center.
const element = (id) => document.getElementById(id)
const tasks = element('tasks')
const sample = String.raw`\documentclass{article}
\usepackage{amsmath}
\title{A first page}
\author{You}
\begin{document}
\maketitle
Close this tab while it builds: the job goes on.
\begin{equation}
  e^{i\pi} + 1 = 0
\end{equation}
\end{document}
`
let files = null
let projectId = sessionStorage.getItem('platen-project')

async function ask(query, variables = {}) {
  const response = await fetch('/graphql', {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${sessionStorage.getItem('platen-token')}` },
    body: JSON.stringify({ query, variables }),
  })
  const { data, errors } = await response.json()
  if (errors) throw Object.assign(new Error(errors[0].message), { code: errors[0].extensions?.code })
  return data
}

async function mutate(field, input, selection) {
  const type = `${field[0].toUpperCase()}${field.slice(1)}Input`
  const { result } = await ask(
    `mutation ($input: ${type}!) { result: ${field}(input: $input) { __typename ${selection} ... on Error { message } ... on ValidationError { issues { message } } } }`,
    { input },
  )
  if (result.message) throw new Error(result.issues?.map((issue) => issue.message).join('\n') ?? result.message)
  return result
}

async function signIn() {
  const token = sessionStorage.getItem('platen-token')
  if (token) {
    try {
      await ask('{ viewer { id } }')
      tasks.token = token
      element('sign-in').hidden = true
      element('studio').hidden = false
      return
    } catch (error) {
      element('token-error').textContent =
        error.code === 'UNAUTHENTICATED'
          ? 'The server does not know this token.'
          : 'The server does not answer. Try again in a moment.'
    }
  }
  element('studio').hidden = true
  element('sign-in').hidden = false
}

async function ensureProject(name) {
  if (projectId) {
    try {
      return (await ask('query ($id: ID!) { project(id: $id) { id files { path sha256 } } }', { id: projectId }))
        .project
    } catch (error) {
      if (error.code !== 'NOT_FOUND') throw error
    }
  }
  const { project } = await mutate(
    'createProject',
    { name, type: 'LATEX', idempotencyKey: crypto.randomUUID() },
    '... on CreateProjectPayload { project { id files { path sha256 } } }',
  )
  projectId = project.id
  sessionStorage.setItem('platen-project', projectId)
  return project
}

async function write(project, path, bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  const sha256 = Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('')
  if (project.files.some((file) => file.path === path && file.sha256 === sha256)) return
  const { upload } = await mutate(
    'createUpload',
    { byteLength: String(bytes.byteLength), sha256 },
    '... on CreateUploadPayload { upload { id url } }',
  )
  const sent = await fetch(upload.url, { method: 'PUT', body: bytes })
  if (!sent.ok) throw new Error((await sent.json()).message)
  await mutate(
    'writeAsset',
    { projectId: project.id, path, uploadId: upload.id },
    '... on WriteAssetPayload { file { path } }',
  )
}

async function build() {
  const project = await ensureProject(files?.name ?? 'A first page')
  if (files) for (const [path, file] of files.entries) await write(project, path, await file.arrayBuffer())
  else
    await mutate(
      'writeDocument',
      { projectId: project.id, path: 'main.tex', text: element('source').value },
      '... on WriteDocumentPayload { file { path } }',
    )
  const latex = { onError: element('keep-going').checked ? 'PUBLISH' : 'FAIL' }
  if (element('engine').value) latex.engine = element('engine').value
  const { job } = await mutate(
    'buildProject',
    { projectId: project.id, idempotencyKey: crypto.randomUUID(), latex },
    '... on BuildProjectPayload { job { id } }',
  )
  await tasks.refresh()
  return job
}

async function show(task) {
  const preview = element('preview')
  const pdf = task.artifacts.find((artifact) => artifact.role === 'PDF')
  preview.hidden = !pdf
  element('result-note').textContent = pdf
    ? `${pdf.fileName} is ready.`
    : `${task.failure?.message ?? 'There is no document.'} The task center has the details.`
  if (!pdf) return
  const bytes = await (await fetch(pdf.downloadUrl)).blob()
  URL.revokeObjectURL(preview.src)
  preview.src = URL.createObjectURL(new Blob([bytes], { type: 'application/pdf' }))
}

element('token-form').addEventListener('submit', (event) => {
  event.preventDefault()
  sessionStorage.setItem('platen-token', element('token').value.trim())
  void signIn()
})

element('folder').addEventListener('change', ({ target }) => {
  const chosen = [...target.files].map((file) => [
    file.webkitRelativePath.split('/').slice(1).join('/').normalize('NFC'),
    file,
  ])
  const entries = chosen.filter(([path]) => !/(^|\/)\./.test(path))
  files = { name: target.files[0]?.webkitRelativePath.split('/')[0] ?? 'project', entries }
  projectId = null
  element('source').disabled = true
  element('project-note').textContent = `${files.name}: ${entries.length} files. What hidden folders hold is left out.`
})

element('build').addEventListener('click', async ({ target }) => {
  target.disabled = true
  element('build-error').textContent = ''
  try {
    await build()
    element('result-note').textContent = 'Building. The task center shows how far it is.'
  } catch (error) {
    element('build-error').textContent = error.message
  } finally {
    target.disabled = false
  }
})

tasks.addEventListener('platen-task-finished', ({ detail }) => void show(detail.task))
element('source').value = sample
void signIn()
