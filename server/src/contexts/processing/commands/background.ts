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

type Pass = () => Promise<unknown>
type Task = readonly [kind: string, seconds: number, pass: Pass]

async function runPass(log: Logger, metrics: ProcessingMetrics, kind: string, pass: Pass): Promise<void> {
  try {
    const count = await pass()
    metrics.reaperPasses.inc({ kind })
    if (typeof count === 'number' && count > 0) metrics.reaped.inc({ kind }, count)
  } catch (error) {
    metrics.reaperFailures.inc({ kind })
    log.warn({ err: error, kind }, 'a reaper pass failed; it will be repeated')
  }
}

/** Resolves after about so long, jittered so that replicas do not beat together. @returns false once it was stopped */
async function pause(seconds: number, signal: AbortSignal): Promise<boolean> {
  await sleep(seconds * 1000 * (0.9 + Math.random() * 0.2), undefined, { signal }).catch(() => {})
  return !signal.aborted
}

/** Runs each sweep again and again, never twice at once, each on its own beat. */
export class Periodic {
  readonly #stop = new AbortController()
  readonly #loops: readonly Promise<void>[]

  constructor(log: Logger, metrics: ProcessingMetrics, tasks: readonly Task[]) {
    this.#loops = tasks.map(async ([kind, seconds, pass]) => {
      while (await pause(seconds, this.#stop.signal)) await runPass(log, metrics, kind, pass)
    })
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await Promise.allSettled(this.#loops)
  }
}

/** While nothing is under way the look is taken this many times as seldom. */
const idleFactor = 2

/** Looks what is due, in one statement, and runs the passes that have something to do. */
export class Watch<Kind extends string> {
  readonly #stop = new AbortController()
  readonly #loop: Promise<void>
  readonly #look: () => Promise<{ readonly [kind in Kind | 'busy']: boolean }>
  readonly #passes: Readonly<Record<Kind, Pass>>
  readonly #run: (kind: string, pass: Pass) => Promise<void>

  /** @param look may also do what follows from what it sees */
  constructor(
    log: Logger,
    metrics: ProcessingMetrics,
    passes: Readonly<Record<Kind, Pass>>,
    seconds: number,
    look: () => Promise<{ readonly [kind in NoInfer<Kind> | 'busy']: boolean }>,
  ) {
    this.#look = look
    this.#passes = passes
    this.#run = (kind, pass) => runPass(log, metrics, kind, pass)
    this.#loop = this.#repeat(seconds)
  }

  /** One look, with what follows. @returns whether anything is under way */
  async once(): Promise<boolean> {
    let busy = true
    await this.#run('due', async () => {
      const due = await this.#look()
      busy = due.busy
      for (const kind of Object.keys(this.#passes) as Kind[]) if (due[kind]) await this.#run(kind, this.#passes[kind])
    })
    return busy
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.#loop
  }

  async #repeat(seconds: number): Promise<void> {
    for (let busy = true; await pause(busy ? seconds : seconds * idleFactor, this.#stop.signal); )
      busy = await this.once()
  }
}
