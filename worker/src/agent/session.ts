import type { Logger } from 'pino'
import {
  type OpenSessionResponse,
  type Operation,
  type ProcessorHealth,
  type ProcessorRegistration,
  routes,
} from '../protocol/index.ts'
import type { Executor } from '../sandbox/index.ts'
import type { Processor } from '../sdk/processor.ts'
import { Attempt } from './attempt.ts'
import type { Clock } from './clock.ts'
import type { CoreClient } from './core-client.ts'
import { isSessionLost } from './core-errors.ts'
import { storableText } from './storable-text.ts'

/** Core answers a poll within its wait; past this much more the connection is dead. */
const pollSlackMilliseconds = 15_000
/** An answer without claims that came at once is followed by a pause, so that a refusing Core is not stormed. */
const emptyPauseMilliseconds = 1_000

/** Between two heartbeats that were answered at once. */
const heartbeatPauseMilliseconds = 200
const inspectAgainMilliseconds = 30_000

export interface RegisteredProcessor {
  readonly processor: Processor
  readonly registration: ProcessorRegistration
}

export interface SessionParts {
  readonly opened: OpenSessionResponse
  /** With the session's token. */
  readonly client: CoreClient
  readonly processors: readonly RegisteredProcessor[]
  readonly executor: Executor
  readonly temporaryDirectory: string
  readonly clock: Clock
  readonly log: Logger
}

/** One registration with Core: takes claims, runs them, reports that it lives, until it is lost or drained. */
export class Session {
  readonly #parts: SessionParts
  readonly #over = new AbortController()
  readonly #polling = new AbortController()
  readonly #attempts = new Map<Attempt, Promise<void>>()
  readonly #loops: readonly Promise<void>[]
  readonly #freed = new Map<Operation, () => void>()
  readonly #health: Map<Operation, ProcessorHealth>
  /** Operations of which an attempt broke here since they were last looked at. */
  readonly #suspect = new Set<Operation>()

  constructor(parts: SessionParts) {
    this.#parts = parts
    this.#health = new Map(
      parts.processors.map(({ processor: { operation } }) => [operation, { operation, healthy: true, reason: null }]),
    )
    this.#loops = [this.#heartbeats(), ...parts.processors.map((each) => this.#acquire(each))]
  }

  /** Aborts when Core does not know the session any more. */
  get lost(): AbortSignal {
    return this.#over.signal
  }

  /** Takes nothing new; what runs may finish within `seconds`, the rest is handed back. */
  async drain(seconds: number): Promise<void> {
    const { client, clock, opened } = this.#parts
    this.#polling.abort()
    for (const wake of this.#freed.values()) wake()
    const bounded = AbortSignal.any([this.#over.signal, AbortSignal.timeout(5_000)])
    await client.call(routes.drainSession, { session_id: opened.session_id }, {}, { signal: bounded }).catch(() => {})
    const finished = this.#settled()
    if (this.#attempts.size > 0) await Promise.race([finished, clock.sleep(seconds * 1000, this.#over.signal)])
    for (const attempt of this.#attempts.keys()) attempt.interrupt('shutdown')
    await this.#settled()
    this.#over.abort()
  }

  /** Resolves when the session is over and nothing of it runs any more. */
  async end(): Promise<void> {
    await Promise.all(this.#loops)
    await this.#settled()
  }

  async #settled(): Promise<void> {
    await Promise.allSettled(this.#attempts.values())
  }

  /** One long poll after another: Core answers when there is something to do, and else when it is time for the next. */
  async #heartbeats(): Promise<void> {
    const { client, clock, log, opened } = this.#parts
    const over = this.#over.signal
    while (!over.aborted) {
      const asked = clock.now()
      try {
        const answer = await client.call(
          routes.sessionHeartbeat,
          { session_id: opened.session_id },
          { processors: [...this.#health.values()], wait_seconds: Math.min(60, opened.heartbeat_seconds) },
          { signal: over, timeoutMilliseconds: opened.heartbeat_seconds * 1000 + pollSlackMilliseconds },
        )
        for (const attempt of this.#attempts.keys()) {
          if (answer.cancelled_claims.includes(attempt.claim.claim_id)) attempt.interrupt('cancelled')
        }
        if (answer.draining) this.#polling.abort()
      } catch (error) {
        if (over.aborted) return
        if (isSessionLost(error)) return this.#lose(error)
        log.warn({ reason: String(error) }, 'a session heartbeat was not answered')
        await clock.sleep(emptyPauseMilliseconds * (0.5 + Math.random()), over)
      }
      const left = heartbeatPauseMilliseconds - (clock.now() - asked)
      if (left > 0) await clock.sleep(left, over)
    }
  }

  /** Looks whether a processor still works, after an attempt that broke and then until it does. */
  async #inspect({ processor }: RegisteredProcessor): Promise<void> {
    const { clock, executor, log } = this.#parts
    const { operation } = processor
    while (!this.#over.signal.aborted) {
      const readiness = await processor.inspect(executor).catch((error: unknown) => ({
        ready: false as const,
        reason: `The processor could not be inspected: ${(error as Error).message}`,
      }))
      const reason = readiness.ready ? null : storableText(readiness.reason, 500)
      if ((reason === null) !== this.#health.get(operation)?.healthy)
        log.warn({ operation, reason }, reason === null ? 'the processor works again' : 'the processor does not work')
      this.#health.set(operation, { operation, healthy: reason === null, reason })
      if (reason === null) return
      await clock.sleep(inspectAgainMilliseconds, this.#over.signal)
    }
  }

  async #acquire(registered: RegisteredProcessor): Promise<void> {
    const { client, clock, log, opened } = this.#parts
    const { operation } = registered.processor
    const stop = AbortSignal.any([this.#over.signal, this.#polling.signal])
    const onBroken = () => this.#suspect.add(operation)
    while (!stop.aborted) {
      if (this.#suspect.delete(operation)) await this.#inspect(registered)
      const permits = registered.registration.slots - this.#running(operation)
      if (permits === 0) {
        await new Promise<void>((resolve) => this.#freed.set(operation, resolve))
        continue
      }
      try {
        let late = false
        const asked = clock.now()
        const { claims } = await client.persist(
          routes.acquire,
          { session_id: opened.session_id },
          { processor: operation, permits, expires_in: Math.min(60, opened.acquire_wait_seconds) },
          {
            signal: this.#over.signal,
            timeoutMilliseconds: opened.acquire_wait_seconds * 1000 + pollSlackMilliseconds,
            onRetry: () => {
              late = true
            },
          },
        )
        for (const claim of claims)
          this.#start(
            new Attempt(claim, late, { ...this.#parts, processor: registered.processor, onBroken }),
            operation,
          )
        const quick = clock.now() - asked < emptyPauseMilliseconds
        if (claims.length === 0 && quick) await clock.sleep(emptyPauseMilliseconds * (0.5 + Math.random()), stop)
      } catch (error) {
        if (this.#over.signal.aborted) return
        if (isSessionLost(error)) return this.#lose(error)
        log.error({ err: error }, 'Core refused to give work')
        await clock.sleep(emptyPauseMilliseconds * 10, stop)
      }
    }
  }

  #running(operation: Operation): number {
    return [...this.#attempts.keys()].filter((attempt) => attempt.claim.operation === operation).length
  }

  #start(attempt: Attempt, operation: Operation): void {
    const run = attempt.run().finally(() => {
      this.#attempts.delete(attempt)
      this.#freed.get(operation)?.()
    })
    this.#attempts.set(attempt, run)
  }

  #lose(error: unknown): void {
    this.#parts.log.warn({ reason: String(error) }, 'the session is lost; another will be opened')
    this.#over.abort()
    for (const wake of this.#freed.values()) wake()
  }
}
