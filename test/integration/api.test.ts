import { randomUUID } from 'node:crypto'
import { createClient } from 'graphql-ws'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import WebSocket from 'ws'
import { ApiClient } from '../support/platen/api-client.ts'
import { startTestApp, type TestApp } from '../support/platen/app.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }
const unknownId = (type: string) => Buffer.from(`${type}:${randomUUID()}`).toString('base64url')

describe('the API', () => {
  let platen: TestApp
  beforeAll(async () => {
    platen = await startTestApp({
      limits: { document_bytes: 1000, upload_bytes: 5000, project_bytes: 8000, project_files: 6 },
    })
  })
  afterAll(() => platen[Symbol.asyncDispose]())

  describe('without a sound token', () => {
    it.each(['', 'nonsense', `pl_${'x'.repeat(43)}`])('answers 401 to %j', async (token) => {
      expect(await new ApiClient(platen.url, token).ask('{ viewer { name } }')).toMatchObject({
        status: 401,
        code: 'UNAUTHENTICATED',
      })
    })

    it('closes a WebSocket with 4403', async () => {
      const socket = new WebSocket(`${platen.url.replace('http', 'ws')}/graphql`, 'graphql-transport-ws')
      socket.on('open', () => socket.send(JSON.stringify({ type: 'connection_init', payload: { token: 'no' } })))
      expect(await new Promise((resolve) => socket.on('close', resolve))).toBe(4403)
    })
  })

  describe('as a form of another origin would send it', () => {
    it.each(['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'])(
      'refuses %s',
      async (type) => {
        const user = await platen.newUser()
        const response = await fetch(`${platen.url}/graphql`, {
          method: 'POST',
          headers: { 'content-type': type, authorization: `Bearer ${user.token}` },
          body: JSON.stringify({ query: '{ viewer { name } }' }),
        })
        expect(response.status).toBe(415)
      },
    )

    it('answers no GET', async () => {
      expect((await fetch(`${platen.url}/graphql?query={viewer{name}}`)).status).toBe(404)
    })
  })

  describe('of what is not there or belongs to someone else', () => {
    it('says NOT_FOUND of both alike', async () => {
      const [anna, ben] = [await platen.newUser(), await platen.newUser()]
      const projectId = await anna.newProject(article)
      const { job } = await anna.build(projectId)
      const read = (id: string) => ben.ask('query ($id: ID!) { project(id: $id) { id } }', { id })
      const readJob = (id: string) => ben.ask('query ($id: ID!) { job(id: $id) { id } }', { id })
      const strange = [
        await read(projectId),
        await read(unknownId('Project')),
        await read('nonsense'),
        await read(job.id),
        await readJob(job.id),
        await readJob(unknownId('Job')),
      ]
      for (const answer of strange) {
        expect(answer.code).toBe('NOT_FOUND')
        expect(Object.values(answer.data)).toEqual([null])
      }
      expect(await ben.build(projectId)).toMatchObject({ code: 'NOT_FOUND' })
      expect(await ben.build(unknownId('Project'))).toMatchObject({ code: 'NOT_FOUND' })
      expect(await ben.write(projectId, 'x.tex', 'x')).toMatchObject({ code: 'NOT_FOUND' })
      expect(await ben.cancel(job.id)).toMatchObject({ code: 'NOT_FOUND' })
      const stream = ben.watch(job.id)
      await expect(stream.next()).rejects.toMatchObject({ code: 'NOT_FOUND' })
      await anna.cancel(job.id)
    })

    it('lets a viewer read, and an editor write', async () => {
      const [anna, ben] = [await platen.newUser(), await platen.newUser()]
      const projectId = await anna.newProject(article)
      const grant = (role: string) =>
        anna.mutate(
          'grantProjectAccess',
          'GrantProjectAccessInput',
          { projectId, principalId: ben.globalId, role },
          '... on GrantProjectAccessPayload { project { id } }',
        )
      await grant('VIEWER')
      expect(
        (await ben.ask('query ($id: ID!) { project(id: $id) { role files { path } } }', { id: projectId })).data
          .project,
      ).toEqual({
        role: 'VIEWER',
        files: [{ path: 'main.tex' }],
      })
      expect(await ben.write(projectId, 'x.tex', 'x')).toMatchObject({
        __typename: 'ValidationError',
        issues: [{ code: 'role_too_weak' }],
      })
      expect(await ben.build(projectId)).toMatchObject({ __typename: 'ValidationError' })
      await grant('EDITOR')
      expect(await ben.write(projectId, 'x.tex', 'x')).toMatchObject({ __typename: 'WriteDocumentPayload' })
    })

    it('shows a requester who lost the project only that and how the job ended', async () => {
      const [anna, ben] = [await platen.newUser(), await platen.newUser()]
      const worker = platen.newWorker()
      await worker.open()
      const projectId = await anna.newProject(article)
      const access = (field: string, more: object) =>
        anna.mutate(
          field,
          `${field[0]?.toUpperCase()}${field.slice(1)}Input`,
          { projectId, principalId: ben.globalId, ...more },
          '__typename',
        )
      await access('grantProjectAccess', { role: 'EDITOR' })
      const { job } = await ben.build(projectId)
      await worker.deliver(await worker.claim())
      const [artifact] = (await ben.finished(job.id)).artifacts
      expect((await fetch(platen.url + artifact.downloadUrl)).status).toBe(200)
      await access('revokeProjectAccess', {})
      expect(await ben.job(job.id)).toMatchObject({
        state: 'SUCCEEDED',
        artifacts: [],
        diagnostics: [],
        inputDigest: null,
      })
      expect((await fetch(platen.url + artifact.downloadUrl)).status).toBe(404)
      expect((await anna.job(job.id)).artifacts).toHaveLength(1)
    })
  })

  describe('of names that cannot be', () => {
    const refused: readonly (readonly [path: string, code: string])[] = [
      ['../main.tex', 'unsafe_path'],
      ['/etc/passwd', 'unsafe_path'],
      ['a\\b.tex', 'unsafe_path'],
      ['CON.tex', 'reserved_name'],
      ['MAIN.tex', 'name_collision'],
      ['main.tex/inner.tex', 'name_collision'],
      ['chapters', 'name_collision'],
      ['Chapters/two.tex', 'name_collision'],
    ]
    it.each(refused)('refuses %s as %s, and names it', async (path, code) => {
      const user = await platen.newUser()
      const projectId = await user.newProject({ ...article, 'chapters/one.tex': 'one' })
      const answer = await user.write(projectId, path, 'x')
      expect(answer).toMatchObject({ __typename: 'ValidationError', issues: [{ code, path: ['path', path] }] })
    })
  })

  describe('of text that no database keeps', () => {
    it.each(['a\u0000b', 'a\ud800b', 'a\nb', 'a\u001b[31m'])('refuses %j as a name or a key, by name', async (text) => {
      const user = await platen.newUser()
      const create = (input: object) =>
        user.mutate(
          'createProject',
          'CreateProjectInput',
          { name: 'x', type: 'LATEX', idempotencyKey: randomUUID(), ...input },
          '__typename',
        )
      expect(await create({ name: text })).toMatchObject({
        __typename: 'ValidationError',
        issues: [{ path: ['name'] }],
      })
      expect(await create({ idempotencyKey: text })).toMatchObject({
        __typename: 'ValidationError',
        issues: [{ path: ['idempotencyKey'] }],
      })
    })

    it('refuses a document with NUL, and a worker that reports it', async () => {
      const user = await platen.newUser()
      const projectId = await user.newProject(article)
      expect(await user.write(projectId, 'a.tex', 'a\u0000b')).toMatchObject({
        issues: [{ path: ['text'], code: 'invalid' }],
      })
      const worker = platen.newWorker()
      await worker.open()
      const { job } = await user.build(projectId)
      const claim = await worker.claim()
      expect(await worker.fail(claim, 'processor_rejected', { message: 'a\u0000b' })).toMatchObject({
        status: 400,
        body: { code: 'invalid_request' },
      })
      expect(await worker.fail(claim, 'processor_rejected', { message: 'plain' })).toMatchObject({ status: 200 })
      expect(await user.job(job.id)).toMatchObject({ state: 'FAILED' })
    })
  })

  describe('of what is too large', () => {
    it('refuses a document, an upload, a project and a file too many, each by name', async () => {
      const user = await platen.newUser()
      const projectId = await user.newProject(article)
      expect(await user.write(projectId, 'big.tex', 'x'.repeat(1001))).toMatchObject({
        issues: [{ code: 'too_large', path: ['files', 'big.tex'] }],
      })
      const declared = { byteLength: 5001, sha256: 'a'.repeat(64) }
      expect(await user.mutate('createUpload', 'CreateUploadInput', declared, '__typename')).toMatchObject({
        issues: [{ code: 'too_large', path: ['byteLength'] }],
      })
      await user.upload(projectId, 'a.bin', Buffer.alloc(4000, 1))
      expect(await user.upload(projectId, 'b.bin', Buffer.alloc(4500, 2))).toMatchObject({
        issues: [{ code: 'too_large', path: ['files', 'b.bin'] }],
      })
      for (const name of ['1', '2', '3', '4']) await user.write(projectId, `${name}.tex`, name)
      expect(await user.write(projectId, 'seventh.tex', 'x')).toMatchObject({
        issues: [{ code: 'too_large', path: ['files', 'seventh.tex'] }],
      })
    })
  })

  describe('of a build that cannot be', () => {
    const noJobs = async (user: ApiClient) =>
      expect((await user.ask('{ jobs { edges { node { id } } } }')).data.jobs.edges).toEqual([])

    it('refuses an empty project, one without a source and a missing entry, and makes no job', async () => {
      const user = await platen.newUser()
      expect(await user.build(await user.newProject())).toMatchObject({
        __typename: 'ValidationError',
        issues: [{ path: ['files'], code: 'required' }],
      })
      expect(await user.build(await user.newProject({ 'notes.txt': 'x' }))).toMatchObject({
        issues: [{ path: ['files'], code: 'required' }],
      })
      expect(await user.build(await user.newProject(article), { latex: { entryPath: 'thesis.tex' } })).toMatchObject({
        issues: [{ path: ['latex', 'entryPath'], code: 'not_found' }],
      })
      const settings = { entryPath: 'gone.tex' }
      expect(await user.build(await user.newProject(article, { settings }))).toMatchObject({
        issues: [{ path: ['settings', 'entryPath'], code: 'not_found' }],
      })
      expect(await user.build(await user.newProject(article), { latex: { entryPath: '../x.tex' } })).toMatchObject({
        issues: [{ code: 'unsafe_path' }],
      })
      await noJobs(user)
    })

    it('refuses a project of another type', async () => {
      const user = await platen.newUser()
      const projectId = await user.newProject({ 'main.typ': '= Hello' }, { type: 'TYPST' })
      expect(await user.build(projectId)).toMatchObject({ __typename: 'ProjectTypeMismatchError' })
      await noJobs(user)
    })

    it('refuses an operation that the deployment does not offer', async () => {
      await using without = await startTestApp({ offered: false })
      const user = await without.newUser()
      expect(await user.build(await user.newProject(article))).toMatchObject({
        __typename: 'OperationUnavailableError',
      })
      expect((await user.ask('{ capabilities { operation } }')).data.capabilities).toEqual([])
    })

    it('refuses more than the deployment lets wait, exactly, and says when to come again', async () => {
      await using full = await startTestApp({ limits: { queued_jobs: 3 } })
      const user = await full.newUser()
      const projectIds = await Promise.all(Array.from({ length: 6 }, () => user.newProject(article)))
      const answers = await Promise.all(projectIds.map((projectId) => user.build(projectId)))
      const refused = answers.filter((answer) => answer.__typename === 'QuotaExceededError')
      expect(refused).toHaveLength(3)
      // Nothing moves, for there is no worker.
      expect(refused[0]).toMatchObject({ retryAfterSeconds: 60 })
    })
  })

  describe('of capabilities', () => {
    it('says WAITING until a worker serves the operation, takes jobs meanwhile, and then names its toolchain', async () => {
      await using fresh = await startTestApp()
      const user = await fresh.newUser()
      const ask = async () =>
        (await user.ask('{ capabilities { operation state processors { name engines } } }')).data.capabilities
      expect(await ask()).toEqual([{ operation: 'latex.compile.pdf/v1', state: 'WAITING', processors: [] }])
      const { job } = await user.build(await user.newProject(article))
      expect(await user.until(job.id, (state) => state.state === 'QUEUED')).toMatchObject({
        waitingReason: 'NO_WORKER',
      })
      const worker = fresh.newWorker()
      await worker.open()
      expect(await ask()).toEqual([
        {
          operation: 'latex.compile.pdf/v1',
          state: 'AVAILABLE',
          processors: [{ name: 'test', engines: ['pdflatex'] }],
        },
      ])
      await worker.deliver(await worker.claim())
      expect(await user.finished(job.id)).toMatchObject({ state: 'SUCCEEDED' })
    })
  })

  describe('of a job, over WebSocket', () => {
    it('sends the present state, each newer one, and completes after the last', async () => {
      const user = await platen.newUser()
      const worker = platen.newWorker()
      await worker.open()
      const { job } = await user.build(await user.newProject(article))
      const client = createClient({
        url: `${platen.url.replace('http', 'ws')}/graphql`,
        webSocketImpl: WebSocket,
        connectionParams: { token: user.token },
      })
      const seen: { state: string; version: string; artifacts: unknown[] }[] = []
      const stream = client.iterate<{ job: (typeof seen)[number] }>({
        query: 'subscription ($id: ID!) { job(id: $id) { state version artifacts { id } } }',
        variables: { id: job.id },
      })
      const work = worker.claim().then((claim) => worker.deliver(claim))
      for await (const { data } of stream) if (data) seen.push(data.job)
      await work
      const versions = seen.map((state) => Number(state.version))
      expect(versions).toEqual([...new Set(versions)].sort((a, b) => a - b))
      expect(seen.at(-1)).toMatchObject({ state: 'SUCCEEDED', artifacts: [{}] })
      await client.dispose()
    })

    it('is told of changes that another replica made', async () => {
      const replica = await platen.newReplica()
      const user = await platen.newUser()
      const other = new ApiClient(`http://127.0.0.1:${replica.port}`, user.token)
      const { job } = await user.build(await user.newProject(article))
      const stream = other.watch(job.id)
      await stream.next()
      await user.cancel(job.id)
      const states: string[] = []
      for await (const state of stream) states.push(state.state)
      expect(states.at(-1)).toBe('CANCELLED')
    })
  })

  describe('of lists', () => {
    it('pages forward and backward without losing or repeating a job', async () => {
      const user = await platen.newUser()
      const made: string[] = []
      for (let number = 0; number < 5; number += 1) {
        const { job } = await user.build(await user.newProject(article))
        made.unshift(job.id)
      }
      const page = async (args: string) =>
        (
          await user.ask(
            `{ jobs(${args}) { edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }`,
          )
        ).data.jobs
      // biome-ignore lint/suspicious/noExplicitAny: as the API sent it
      const ids = (connection: any) => connection.edges.map((edge: any) => edge.node.id)
      const first = await page('first: 2')
      const second = await page(`first: 2, after: "${first.pageInfo.endCursor}"`)
      const third = await page(`first: 2, after: "${second.pageInfo.endCursor}"`)
      expect([...ids(first), ...ids(second), ...ids(third)]).toEqual(made)
      expect([first, second, third].map((each) => each.pageInfo.hasNextPage)).toEqual([true, true, false])
      const back = await page(`last: 2, before: "${third.pageInfo.startCursor}"`)
      expect(ids(back)).toEqual(ids(second))
      expect(ids(await page('last: 2'))).toEqual(made.slice(-2))
      for (const id of made) await user.cancel(id)
    })

    it('refuses pages that are too large or ask for two things', async () => {
      const user = await platen.newUser()
      for (const args of ['first: 101', 'first: 1, last: 1', 'after: "nonsense"', 'first: -1']) {
        expect(await user.ask(`{ jobs(${args}) { edges { cursor } } }`)).toMatchObject({ code: 'BAD_USER_INPUT' })
      }
    })
  })

  describe('of files', () => {
    it('keeps the text of a document byte for byte, and moves and deletes it', async () => {
      const user = await platen.newUser()
      const projectId = await user.newProject()
      const text = '\ufeffa\r\nb\rü😀'
      const { file } = await user.write(projectId, 'a.tex', text)
      expect(file.byteLength).toBe(String(Buffer.byteLength(text)))
      const move = (from: string, to: string) =>
        user.mutate(
          'moveFile',
          'MoveFileInput',
          { projectId, from, to },
          '... on MoveFilePayload { file { path sha256 } }',
        )
      expect(await move('a.tex', 'a.tex/b.tex')).toMatchObject({ file: { path: 'a.tex/b.tex', sha256: file.sha256 } })
      expect(await move('a.tex/b.tex', 'A.TEX')).toMatchObject({ file: { path: 'A.TEX', sha256: file.sha256 } })
      expect(await move('nothing.tex', 'x.tex')).toMatchObject({ issues: [{ code: 'not_found' }] })
      const remove = (path: string) =>
        user.mutate('deleteFile', 'DeleteFileInput', { projectId, path }, '... on DeleteFilePayload { deletedPath }')
      expect(await remove('A.TEX')).toMatchObject({ deletedPath: 'A.TEX' })
      expect(await remove('A.TEX')).toMatchObject({ issues: [{ code: 'not_found' }] })
    })

    it('does not count a change that changes nothing', async () => {
      const user = await platen.newUser()
      const projectId = await user.newProject(article)
      const generation = async () =>
        (await user.ask('query ($id: ID!) { project(id: $id) { generation } }', { id: projectId })).data.project
          .generation
      const before = await generation()
      await user.write(projectId, 'main.tex', article['main.tex'])
      expect(await generation()).toBe(before)
      await user.write(projectId, 'main.tex', 'changed')
      expect(await generation()).not.toBe(before)
    })
  })

  it('describes every type, field, argument, input field and enum value', async () => {
    const user = await platen.newUser()
    const { data } = await user.ask(`{ __schema { types { name description
      fields { name description args { name description } } inputFields { name description } enumValues { name description } } } }`)
    interface Described {
      name: string
      description?: string | null
      fields?: Described[]
      args?: Described[]
      inputFields?: Described[]
      enumValues?: Described[]
    }
    const bare: string[] = []
    const walk = (thing: Described, path: string) => {
      const here = path === '' ? thing.name : `${path}.${thing.name}`
      if (!thing.description) bare.push(here)
      for (const inner of [thing.fields, thing.args, thing.inputFields, thing.enumValues])
        for (const each of inner ?? []) walk(each, here)
    }
    for (const type of data.__schema.types as Described[]) if (!type.name.startsWith('__')) walk(type, '')
    expect(bare).toEqual([])
  })
})
