import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { ProcessingMetrics } from './metrics.ts'

const tries = 4
const firstPauseMilliseconds = 100

/**
 * Steps that follow a commit, in this process. They are a short cut only: what fails or dies here is found again by
 * the reapers, from the rows.
 */
export class BackgroundWork {
  readonly #log: Logger
  readonly #running = new Map<string, Promise<void>>()
  readonly #stop = new AbortController()

  constructor(log: Logger) {
    this.#log = log
  }

  /** Starts a step unless the same one is under way here. */
  run(kind: string, jobId: string, step: () => Promise<void>): void {
    const key = `${kind} ${jobId}`
    if (this.#running.has(key) || this.#stop.signal.aborted) return
    this.#running.set(
      key,
      this.#attempt(kind, jobId, step).finally(() => this.#running.delete(key)),
    )
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    this.#stop.abort()
    await Promise.allSettled(this.#running.values())
  }

  async #attempt(kind: string, jobId: string, step: () => Promise<void>): Promise<void> {
    for (let tried = 1; tried <= tries; tried += 1) {
      try {
        return await step()
      } catch (error) {
        this.#log.error({ err: error, kind, job_id: jobId, tried }, 'a step after a commit failed')
        await sleep(firstPauseMilliseconds * 4 ** (tried - 1), undefined, { signal: this.#stop.signal }).catch(() => {})
        if (this.#stop.signal.aborted) return
      }
    }
  }
}

type Task = readonly [kind: string, seconds: number, pass: () => Promise<unknown>]

/** Runs each reaper again and again, never twice at once, each on its own beat. */
export class Periodic {
  readonly #stop = new AbortController()
  readonly #loops: readonly Promise<void>[]

  constructor(log: Logger, metrics: ProcessingMetrics, tasks: readonly Task[]) {
    this.#loops = tasks.map(async ([kind, seconds, pass]) => {
      while (await this.#pause(seconds)) {
        try {
          const count = await pass()
          if (typeof count === 'number' && count > 0) metrics.reaped.inc({ kind }, count)
        } catch (error) {
          metrics.reaperFailures.inc({ kind })
          log.warn({ err: error, kind }, 'a reaper pass failed; it will be repeated')
        }
      }
    })
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await Promise.allSettled(this.#loops)
  }

  async #pause(seconds: number): Promise<boolean> {
    await sleep(seconds * 1000, undefined, { signal: this.#stop.signal }).catch(() => {})
    return !this.#stop.signal.aborted
  }
}
