import { createHash, randomUUID } from 'node:crypto'

interface GraphqlError {
  readonly message: string
  readonly extensions?: { readonly code?: string }
}
export interface GraphqlAnswer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it asked for
  readonly data: any
  readonly errors: readonly GraphqlError[]
  /** `extensions.code` of the first error. */
  readonly code: string | undefined
}

const jobFields = `id state phase version attempt cancelRequested waitingReason inputDigest processorContract
  failure { class message limit { name value } }
  diagnostics { severity file line message }
  artifacts { id role mediaType fileName byteLength sha256 downloadUrl }`

/** Asks the API as any client would, with hand-written documents. */
export class ApiClient {
  readonly url: string
  readonly token: string
  readonly principalId: string

  constructor(url: string, token: string, principalId = '') {
    this.url = url
    this.token = token
    this.principalId = principalId
  }

  /** The global id by which others may be granted access. */
  get globalId(): string {
    return Buffer.from(`Viewer:${this.principalId}`).toString('base64url')
  }

  async ask(query: string, variables: Record<string, unknown> = {}): Promise<GraphqlAnswer> {
    const response = await fetch(`${this.url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${this.token}` },
      body: JSON.stringify({ query, variables }),
    })
    const { data, errors = [] } = await response.json()
    return { status: response.status, data, errors, code: errors[0]?.extensions?.code }
  }

  /** The one field of a mutation, with `__typename` and the fields of every error. */
  async mutate(field: string, inputType: string, input: unknown, selection: string): Promise<GraphqlAnswer['data']> {
    const answer = await this.ask(
      `mutation ($input: ${inputType}!) { result: ${field}(input: $input) {
        __typename
        ${selection}
        ... on Error { message code }
        ... on ValidationError { issues { path message code } }
      } }`,
      { input },
    )
    return answer.data?.result ?? { __typename: null, code: answer.code, errors: answer.errors }
  }

  async newProject(files: Readonly<Record<string, string>> = {}, more: Record<string, unknown> = {}): Promise<string> {
    const { project } = await this.mutate(
      'createProject',
      'CreateProjectInput',
      { name: 'Test', type: 'LATEX', idempotencyKey: randomUUID(), ...more },
      '... on CreateProjectPayload { project { id } replayed }',
    )
    for (const [path, text] of Object.entries(files)) await this.write(project.id, path, text)
    return project.id
  }

  write(projectId: string, path: string, text: string) {
    const selection = '... on WriteDocumentPayload { file { id path kind byteLength sha256 } }'
    return this.mutate('writeDocument', 'WriteDocumentInput', { projectId, path, text }, selection)
  }

  /** Declares, sends and writes an asset. */
  async upload(projectId: string, path: string, bytes: Buffer) {
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const { upload } = await this.mutate(
      'createUpload',
      'CreateUploadInput',
      { byteLength: bytes.length, sha256 },
      '... on CreateUploadPayload { upload { id url } }',
    )
    await fetch(new URL(upload.url, this.url), { method: 'PUT', body: new Uint8Array(bytes) })
    return this.mutate(
      'writeAsset',
      'WriteAssetInput',
      { projectId, path, uploadId: upload.id },
      '... on WriteAssetPayload { file { id path kind byteLength sha256 } }',
    )
  }

  build(projectId: string, more: Record<string, unknown> = {}) {
    const input = { projectId, idempotencyKey: randomUUID(), ...more }
    return this.mutate(
      'buildProject',
      'BuildProjectInput',
      input,
      `... on BuildProjectPayload { replayed job { ${jobFields} } } ... on QuotaExceededError { retryAfterSeconds }`,
    )
  }

  cancel(jobId: string) {
    return this.mutate('cancelJob', 'CancelJobInput', { jobId }, `... on CancelJobPayload { job { ${jobFields} } }`)
  }

  async job(id: string): Promise<GraphqlAnswer['data']> {
    return (await this.ask(`query ($id: ID!) { job(id: $id) { ${jobFields} } }`, { id })).data?.job ?? null
  }

  /** Follows a job by server-sent events until `done` says so of a state. */
  async until(id: string, done: (job: GraphqlAnswer['data']) => boolean): Promise<GraphqlAnswer['data']> {
    for await (const job of this.watch(id)) if (done(job)) return job
    throw new Error('the stream of the job ended before')
  }

  finished(id: string): Promise<GraphqlAnswer['data']> {
    return this.until(id, (job) => ['SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED'].includes(job.state))
  }

  async *watch(id: string): AsyncGenerator<GraphqlAnswer['data']> {
    const gone = new AbortController()
    const response = await fetch(`${this.url}/graphql`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'text/event-stream',
        authorization: `Bearer ${this.token}`,
      },
      body: JSON.stringify({ query: `subscription ($id: ID!) { job(id: $id) { ${jobFields} } }`, variables: { id } }),
      signal: gone.signal,
    })
    let text = ''
    try {
      for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        text += chunk
        const events = text.split('\n\n')
        text = events.pop() ?? ''
        for (const event of events) {
          const data = /^data: (.+)$/m.exec(event)?.[1]
          if (!/^event: next$/m.test(event) || !data) continue
          const { data: payload, errors } = JSON.parse(data)
          if (errors) throw Object.assign(new Error(errors[0].message), { code: errors[0].extensions?.code })
          yield payload.job
        }
      }
    } finally {
      gone.abort()
    }
  }
}
