import { randomUUID } from 'node:crypto'
import type { Logger } from 'pino'
import { routes } from '../protocol/index.ts'
import type { Executor } from '../sandbox/index.ts'
import { Backoff } from './backoff.ts'
import { type Clock, systemClock } from './clock.ts'
import { CoreClient, type Failpoint } from './core-client.ts'
import { CoreRefusal } from './core-errors.ts'
import { type RegisteredProcessor, Session } from './session.ts'

export interface AgentOptions {
  readonly coreUrl: string
  readonly workerToken: string
  readonly executor: Executor
  readonly processors: readonly RegisteredProcessor[]
  readonly temporaryDirectory: string
  readonly log: Logger
  /** @default the system's */
  readonly clock?: Clock
  /** For tests; see {@link Failpoint}. */
  readonly failpoint?: Failpoint
  /** Called each time a session is open. */
  readonly onSession?: () => void
}

/** Keeps a session with Core, opens another when it is lost, and drains on request. */
export class Agent {
  readonly #options: AgentOptions & { readonly clock: Clock }
  readonly #client: CoreClient
  readonly #stopping = new AbortController()
  /** One process is one instance: Core ends its former session when it opens another. */
  readonly #instanceId = randomUUID()
  #session: Session | null = null

  constructor(options: AgentOptions) {
    this.#options = { clock: systemClock, ...options }
    const { clock, coreUrl, failpoint, log, workerToken } = this.#options
    this.#client = new CoreClient({ coreUrl, token: workerToken, clock, log, ...(failpoint ? { failpoint } : {}) })
  }

  /** Resolves after {@link stop}. */
  async run(): Promise<void> {
    const { clock, executor, log, onSession, processors, temporaryDirectory } = this.#options
    const stopping = this.#stopping.signal
    const backoff = new Backoff()
    while (!stopping.aborted) {
      try {
        const request = {
          instance_id: this.#instanceId,
          executor: executor.kind,
          processors: processors.map(({ registration }) => registration),
        }
        const opened = await this.#client.persist(routes.openSession, {}, request, { signal: stopping })
        backoff.reset()
        const { session_id, session_token } = opened
        this.#session = new Session({
          opened,
          client: this.#client.withToken(session_token),
          processors,
          executor,
          temporaryDirectory,
          clock,
          log: log.child({ session_id }),
        })
        log.info({ session_id }, 'session opened')
        onSession?.()
        await this.#session.end()
      } catch (error) {
        if (stopping.aborted) break
        if (error instanceof CoreRefusal) log.error({ code: error.code }, `Core refuses this worker: ${error.message}`)
        else log.error({ err: error }, 'the session broke')
        await clock.sleep(backoff.next(), stopping)
      }
    }
    await this.#client.close()
  }

  /** Takes no new work, lets what runs finish within `drainSeconds`, hands the rest back. */
  async stop(drainSeconds: number): Promise<void> {
    this.#stopping.abort()
    await this.#session?.drain(drainSeconds)
  }
}
