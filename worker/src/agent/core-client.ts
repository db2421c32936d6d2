import { randomUUID } from 'node:crypto'
import type { Readable } from 'node:stream'
import type { Logger } from 'pino'
import { Agent, type Dispatcher, request } from 'undici'
import type { z } from 'zod'
import { type Body, problem, protocolBase, type Route } from '../protocol/index.ts'
import { Backoff } from './backoff.ts'
import type { Clock } from './clock.ts'
import { CoreRefusal, CoreUnavailable, DatabaseDown, isRetryable } from './core-errors.ts'

const connectMilliseconds = 10_000
const callMilliseconds = 15_000
/** A transfer fails when no byte moves for this long; its whole length is bounded by the lease. */
const transferIdleMilliseconds = 30_000

type Parsed<B extends Body> = B extends z.ZodType ? z.infer<B> : never
type ParametersOf = Readonly<Record<string, string>>

export interface CallOptions {
  /** Gives the call up; the promise rejects with its reason. */
  readonly signal: AbortSignal
  /** How long Core may think. @default 15 s */
  readonly timeoutMilliseconds?: number
  /** Kept by the caller when a later call is to be a retry of this one. @default a new one */
  readonly idempotencyKey?: string
  /** Told before each wait. */
  readonly onRetry?: () => void
}

export interface CoreClientOptions {
  readonly coreUrl: string
  readonly token: string
  readonly clock: Clock
  readonly log: Logger
  readonly random?: () => number
  /** Told before each call is sent and after its answer came; for tests that lose one or the other. */
  readonly failpoint?: Failpoint
}

/** @param name the last word of the call's path, and `before-send` or `after-answer` */
export type Failpoint = (name: string) => Promise<void> | undefined

/** Speaks the worker protocol over kept-alive connections: one token, one call at a time or retried until answered. */
export class CoreClient {
  readonly #options: CoreClientOptions
  readonly #connections: Agent

  constructor(options: CoreClientOptions, connections = new Agent({ connect: { timeout: connectMilliseconds } })) {
    this.#options = options
    this.#connections = connections
  }

  /** The same connections with another token. */
  withToken(token: string): CoreClient {
    return new CoreClient({ ...this.#options, token }, this.#connections)
  }

  /** Cuts all connections. */
  async close(): Promise<void> {
    await this.#connections.destroy()
  }

  /**
   * Sends a call once.
   *
   * @throws CoreRefusal, CoreUnavailable, or the signal's reason
   */
  async call<Request extends Body, Response extends Body>(
    route: Route<Request, Response>,
    parameters: ParametersOf,
    body: Parsed<Request>,
    { signal, timeoutMilliseconds = callMilliseconds, idempotencyKey = randomUUID() }: CallOptions,
  ): Promise<Parsed<Response>> {
    const { failpoint } = this.#options
    const step = route.path.split('/').at(-1)
    await failpoint?.(`${step}.before-send`)
    const answer = await this.#send(pathOf(route, parameters), {
      method: route.method,
      headers: { 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
      body: JSON.stringify(body),
      signal,
      headersTimeout: timeoutMilliseconds,
      bodyTimeout: timeoutMilliseconds,
    })
    await failpoint?.(`${step}.after-answer`)
    return parse(route, answer.text)
  }

  /** Sends a call until it is answered or refused for good, always with the same idempotency key. */
  async persist<Request extends Body, Response extends Body>(
    route: Route<Request, Response>,
    parameters: ParametersOf,
    body: Parsed<Request>,
    options: CallOptions,
  ): Promise<Parsed<Response>> {
    const idempotencyKey = options.idempotencyKey ?? randomUUID()
    const send = () => this.call(route, parameters, body, { ...options, idempotencyKey })
    return await this.retrying(send, options.signal, { onRetry: options.onRetry, what: route.path })
  }

  /** Repeats what may succeed later, with growing waits, until the signal aborts or the tries are used up. */
  async retrying<T>(
    send: () => Promise<T>,
    signal: AbortSignal,
    {
      what,
      tries = Number.POSITIVE_INFINITY,
      onRetry,
    }: { what: string; tries?: number; onRetry?: (() => void) | undefined },
  ): Promise<T> {
    const { clock, log, random } = this.#options
    const backoff = new Backoff(random)
    for (let tried = 1; ; tried++) {
      signal.throwIfAborted()
      try {
        return await send()
      } catch (error) {
        signal.throwIfAborted()
        if (!isRetryable(error) || tried >= tries) throw error
        onRetry?.()
        const asked = error instanceof CoreRefusal ? error.retryAfterMilliseconds : null
        const wait = asked ?? backoff.next()
        log.warn(
          { call: what, tried, wait_ms: Math.round(wait), reason: String(error) },
          'call to Core will be repeated',
        )
        await clock.sleep(wait, signal)
      }
    }
  }

  /** Opens a ticket's bytes for reading. */
  async download(ticket: string, signal: AbortSignal): Promise<Readable> {
    await this.#options.failpoint?.('download.before-send')
    const answer = await this.#open(ticket, {
      method: 'GET',
      signal,
      headersTimeout: callMilliseconds,
      bodyTimeout: transferIdleMilliseconds,
    })
    return answer.body
  }

  /** Sends exactly `byteLength` bytes to a ticket. */
  async upload<Response extends Body>(
    route: Route<'bytes', Response>,
    ticket: string,
    bytes: Readable,
    byteLength: number,
    signal: AbortSignal,
  ): Promise<Parsed<Response>> {
    await this.#options.failpoint?.('upload.before-send')
    const answer = await this.#send(ticket, {
      method: 'PUT',
      headers: { 'content-type': 'application/octet-stream', 'content-length': String(byteLength) },
      body: bytes,
      signal,
      headersTimeout: transferIdleMilliseconds,
      bodyTimeout: transferIdleMilliseconds,
    })
    await this.#options.failpoint?.('upload.after-answer')
    return parse(route, answer.text)
  }

  async #send(path: string, options: Omit<Dispatcher.RequestOptions, 'origin' | 'path'>) {
    const { body, ...answer } = await this.#open(path, options)
    try {
      return { ...answer, text: await body.text() }
    } catch (cause) {
      throw unavailable(cause, options.signal as AbortSignal)
    }
  }

  async #open(path: string, { headers, ...options }: Omit<Dispatcher.RequestOptions, 'origin' | 'path'>) {
    const { coreUrl, token } = this.#options
    let answer: Dispatcher.ResponseData<unknown>
    try {
      answer = await request(new URL(path, coreUrl), {
        ...options,
        headers: {
          ...(headers as Record<string, string>),
          authorization: `Bearer ${token}`,
          accept: 'application/json',
        },
        dispatcher: this.#connections,
      } as Parameters<typeof request>[1])
    } catch (cause) {
      throw unavailable(cause, options.signal as AbortSignal)
    }
    if (answer.statusCode < 300) return answer
    throw await refusalOf(answer)
  }
}

function pathOf(route: Route, parameters: ParametersOf): string {
  return protocolBase + route.path.replaceAll(/\{(\w+)\}/g, (_all, name) => encodeURIComponent(parameters[name] ?? ''))
}

function parse<Response extends Body>(route: Route<Body, Response>, text: string): Parsed<Response> {
  try {
    return (route.response as z.ZodType).parse(JSON.parse(text)) as Parsed<Response>
  } catch (cause) {
    throw new CoreUnavailable(
      `Core's answer to ${route.method} ${route.path} is not of this protocol; run Core and worker from one release`,
      { cause },
    )
  }
}

function unavailable(cause: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason
  const { code, message } = cause as NodeJS.ErrnoException
  return new CoreUnavailable(`Core did not answer: ${code ?? message}`, { cause })
}

async function refusalOf(answer: Dispatcher.ResponseData<unknown>): Promise<CoreRefusal | CoreUnavailable> {
  const text = await answer.body.text().catch(() => '')
  if (answer.statusCode === 503 && text.includes('database_unavailable'))
    return new DatabaseDown('Core answered that its database does not run')
  if (answer.statusCode >= 500) return new CoreUnavailable(`Core answered ${answer.statusCode}`)
  try {
    const seconds = Number(answer.headers['retry-after'])
    return new CoreRefusal(problem.parse(JSON.parse(text)), Number.isFinite(seconds) ? seconds * 1000 : null)
  } catch {
    return new CoreUnavailable(
      `${answer.statusCode} without a problem document: check that PLATEN_CORE_URL leads to Core and no proxy answers for it`,
    )
  }
}
