import { NotFoundError, PlatenError, refusalOf, ServerError, UnauthenticatedError } from './errors.ts'

export interface TransportOptions {
  /** Address of the server. */
  readonly url: string
  /** API token, or what gives a fresh one for each request. */
  readonly token: string | (() => string | Promise<string>)
  /** @default the global one */
  readonly fetch?: typeof fetch
}

interface RequestOptions {
  readonly signal?: AbortSignal | undefined
  /** Whether sending it twice is the same as once. */
  readonly repeatable: boolean
}

const requestMilliseconds = 30_000
const tries = 5
const firstPauseMilliseconds = 200
/** A stream that says nothing for this long is dead: the server sends a sign of life every few seconds. */
const silentMilliseconds = 40_000

interface Answer {
  readonly data?: Record<string, unknown> | null
  readonly errors?: readonly { readonly message: string; readonly extensions?: { readonly code?: string } }[]
}

/** One server, one identity. */
export class Transport {
  readonly #options: TransportOptions
  readonly #fetch: typeof fetch

  constructor(options: TransportOptions) {
    this.#options = options
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis)
  }

  /** The address of a path of the server. */
  address(path: string): string {
    return new URL(path, this.#options.url).href
  }

  /** The one field of a document. Repeats after a lost connection only what may be repeated. */
  async ask<T>(document: string, variables: Record<string, unknown>, options: RequestOptions): Promise<T> {
    const once = async () => fieldOf<T>(await this.#once(document, variables, options.signal))
    return options.repeatable ? this.#repeated(once, options.signal) : once()
  }

  /** Tries again after a lost connection, a few times, with growing pauses. */
  async #repeated<T>(send: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    for (let tried = 1; ; tried += 1) {
      try {
        return await send()
      } catch (error) {
        signal?.throwIfAborted()
        if (!(error instanceof ServerError) || tried >= tries) throw error
        await pause(firstPauseMilliseconds * 2 ** (tried - 1) * (0.5 + Math.random()), signal)
      }
    }
  }

  /** The payload of a mutation. @throws {RefusedError} for the other members of its result */
  async mutate<T>(document: string, input: unknown, options: RequestOptions): Promise<T> {
    const result = await this.ask<{ readonly __typename: string }>(document, { input }, options)
    if (!result.__typename.endsWith('Payload')) throw refusalOf(result)
    return result as T
  }

  /** The messages of a subscription, until the server completes it. @throws {ServerError} when the connection is lost */
  async *subscribe<T>(document: string, variables: Record<string, unknown>, signal?: AbortSignal): AsyncGenerator<T> {
    const over = new AbortController()
    const abort = () => over.abort(signal?.reason)
    signal?.addEventListener('abort', abort)
    if (signal?.aborted) abort()
    let watch: ReturnType<typeof setTimeout> | undefined
    const alive = () => {
      clearTimeout(watch)
      watch = setTimeout(
        () => over.abort(new ServerError('UNREACHABLE', 'The server fell silent.')),
        silentMilliseconds,
      )
    }
    try {
      alive()
      const response = await this.#post(document, variables, 'text/event-stream', over.signal)
      if (!response.headers.get('content-type')?.startsWith('text/event-stream')) {
        fieldOf(await readAnswer(response))
        throw new ServerError('PROTOCOL', 'The server does not stream here; a proxy may stand between.')
      }
      for await (const event of eventsOf(response, alive)) {
        if (event.name === 'complete') return
        if (event.name === 'next') yield fieldOf<T>(JSON.parse(event.data))
      }
      throw new ServerError('UNREACHABLE', 'The connection ended.')
    } catch (error) {
      signal?.throwIfAborted()
      throw error instanceof PlatenError
        ? error
        : unreachable(this.#options.url, over.signal.aborted ? over.signal.reason : error)
    } finally {
      clearTimeout(watch)
      signal?.removeEventListener('abort', abort)
      over.abort()
    }
  }

  /** Sends bytes to a path that the server gave; the same bytes may arrive twice. */
  async put(path: string, body: Blob | Uint8Array<ArrayBuffer>, signal?: AbortSignal): Promise<void> {
    const headers = { 'content-type': 'application/octet-stream' }
    const send = () => this.#send(this.address(path), { method: 'PUT', body, headers, signal: signal ?? null })
    const response = await this.#repeated(send, signal)
    if (!response.ok)
      throw new ServerError('UPLOAD_REFUSED', `The server refused the bytes: ${await messageOf(response)}`)
  }

  /** Opens a path that the server gave. */
  async get(path: string, signal?: AbortSignal): Promise<Response> {
    const response = await this.#send(this.address(path), { signal: signal ?? null })
    if (!response.ok)
      throw new ServerError('DOWNLOAD_REFUSED', `The server refused the download: ${await messageOf(response)}`)
    return response
  }

  async #once(document: string, variables: Record<string, unknown>, signal: AbortSignal | undefined): Promise<Answer> {
    const bounded = AbortSignal.any([AbortSignal.timeout(requestMilliseconds), ...(signal ? [signal] : [])])
    return readAnswer(
      await this.#post(document, variables, 'application/graphql-response+json, application/json', bounded),
    )
  }

  async #post(
    query: string,
    variables: Record<string, unknown>,
    accept: string,
    signal: AbortSignal,
  ): Promise<Response> {
    const { token } = this.#options
    const bearer = typeof token === 'function' ? await token() : token
    return this.#send(this.address('/graphql'), {
      method: 'POST',
      headers: { accept, authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query, variables }),
      signal,
    })
  }

  async #send(address: string, init: RequestInit): Promise<Response> {
    try {
      return await this.#fetch(address, init)
    } catch (error) {
      throw unreachable(this.#options.url, error)
    }
  }
}

function unreachable(url: string, cause: unknown): ServerError {
  const reason = (cause as { cause?: { code?: string } })?.cause?.code ?? (cause as Error)?.message ?? 'no answer'
  return new ServerError(
    'UNREACHABLE',
    `Platen at ${url} cannot be reached (${reason}). Is it started, and is PLATEN_URL right?`,
    { cause },
  )
}

async function readAnswer(response: Response): Promise<Answer> {
  const text = await response.text()
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new ServerError(
      'PROTOCOL',
      `The server answered ${response.status} and not GraphQL. Is PLATEN_URL the address of Platen?`,
      { cause },
    )
  }
}

function fieldOf<T>({ data, errors }: Answer): T {
  const [error] = errors ?? []
  if (error) {
    const code = error.extensions?.code
    if (code === 'NOT_FOUND') throw new NotFoundError(code, error.message)
    if (code === 'UNAUTHENTICATED') throw new UnauthenticatedError(code, error.message)
    throw new PlatenError(code ?? 'GRAPHQL', error.message)
  }
  const [value] = Object.values(data ?? {})
  return value as T
}

async function messageOf(response: Response): Promise<string> {
  const text = await response.text().catch(() => '')
  try {
    return JSON.parse(text).message
  } catch {
    return `${response.status} ${response.statusText}`
  }
}

interface ServerEvent {
  readonly name: string
  readonly data: string
}

async function* eventsOf(response: Response, alive: () => void): AsyncGenerator<ServerEvent> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (reader) {
    const { done, value } = await reader.read()
    if (done) return
    alive()
    text += value.replaceAll('\r\n', '\n')
    const blocks = text.split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const lines = block.split('\n')
      const all = (field: string) =>
        lines.filter((line) => line.startsWith(`${field}:`)).map((line) => line.slice(field.length + 1).trimStart())
      const [name] = all('event')
      if (name) yield { name, data: all('data').join('\n') }
    }
  }
}

/** Resolves after `milliseconds`; rejects with the signal's reason. */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, milliseconds)
    signal?.addEventListener('abort', stop)
    function done() {
      signal?.removeEventListener('abort', stop)
      resolve()
    }
    function stop() {
      clearTimeout(timer)
      reject(signal?.reason)
    }
  })
}
