import { AsyncLocalStorage } from 'node:async_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { DatabaseOptions } from '../../../server/src/platform/database.ts'
import type { Failpoints } from '../../../server/src/platform/failpoints.ts'

/** Which of the two takes its next step. */
export type Actor = 0 | 1
export interface Outcome {
  readonly results: readonly [PromiseSettledResult<unknown>, PromiseSettledResult<unknown>]
  /** Choices that were free: at each of them the other actor could have gone on instead. */
  readonly choices: readonly Actor[]
  /** Every step, in order, as `0 SELECT …`; for messages. */
  readonly trace: readonly string[]
}

interface Running {
  readonly actor: Actor
  /** Set while it waits for its turn. */
  go: (() => void) | null
  done: boolean
}

type Choose = (free: number) => Actor

/** PostgreSQL needs a moment to say that a backend waits for a lock. */
const arrivalMilliseconds = 4

/**
 * Lets two actors work on one database in an order that it decides, a statement at a time; a commit is a step too. An
 * actor that waits for a lock of the other is let wait, and the other goes on.
 */
export class Interleaver {
  readonly #monitor: pg.Client
  readonly #actors = new AsyncLocalStorage<Running>()
  #trace: string[] = []
  /** How often the two waited for each other, ever. */
  deadlocks = 0
  #changed: () => void = () => {}

  /** @param monitor a connection of its own to the same database */
  constructor(monitor: pg.Client) {
    this.#monitor = monitor
  }

  readonly interceptor: NonNullable<DatabaseOptions['interceptors']>[number] = {
    name: 'interleave',
    beforeQueryExecution: async (_context, query) => {
      await this.#step(query.sql.trim().replaceAll(/\s+/g, ' ').slice(0, 90))
      return null
    },
    // A transaction that PostgreSQL gave up is begun anew, so nobody else would know.
    queryExecutionError: (_context, _query, error) => {
      if ((error as { code?: string; cause?: { code?: string } }).code === '40P01') this.deadlocks += 1
      if ((error.cause as { code?: string } | undefined)?.code === '40P01') this.deadlocks += 1
      return null
    },
  }

  readonly failpoints: Failpoints = {
    hit: (name) => (name.endsWith('.before-commit') ? this.#step(name) : undefined),
  }

  /** Runs both to their end, in the order of `choose`. */
  async run(first: () => Promise<unknown>, second: () => Promise<unknown>, choose: Choose): Promise<Outcome> {
    this.#trace = []
    const running: readonly [Running, Running] = [
      { actor: 0, go: null, done: false },
      { actor: 1, go: null, done: false },
    ]
    const work = [first, second].map((actor, index) => {
      const state = running[index] as Running
      return this.#actors.run(state, async () => {
        try {
          await this.#step('begins')
          return await actor()
        } finally {
          state.done = true
          // What goes on after its end, unawaited, is not held up.
          state.go?.()
          this.#changed()
        }
      })
    })
    const settled = Promise.allSettled(work)
    const choices: Actor[] = []
    for (;;) {
      const ready = await this.#ready(running)
      if (ready.length === 0) break
      let next = ready[0] as Running
      if (ready.length === 2) {
        const choice = choose(choices.length)
        choices.push(choice)
        next = ready.find(({ actor }) => actor === choice) as Running
      }
      const { go } = next
      next.go = null
      go?.()
    }
    const results = (await settled) as unknown as Outcome['results']
    return { results, choices, trace: this.#trace }
  }

  /** Those that can take a step, when each of the two waits for its turn, waits for a lock, or is done. */
  async #ready(running: readonly Running[]): Promise<readonly Running[]> {
    for (;;) {
      const open = running.filter(({ done }) => !done)
      const ready = open.filter(({ go }) => go !== null)
      if (ready.length === open.length) return ready
      await Promise.race([new Promise<void>((resolve) => (this.#changed = resolve)), sleep(arrivalMilliseconds)])
      const still = open.filter(({ done, go }) => !done && go === null)
      if (still.length > 0 && ready.length > 0 && (await this.#waitingForLocks()) >= still.length) {
        // It may have got the lock and arrived while we asked.
        if (still.every(({ done, go }) => !done && go === null)) return ready
      }
    }
  }

  async #waitingForLocks(): Promise<number> {
    const { rows } = await this.#monitor.query(
      `SELECT count(*)::int AS count FROM pg_stat_activity
       WHERE datname = current_database() AND wait_event_type = 'Lock' AND cardinality(pg_blocking_pids(pid)) > 0`,
    )
    return rows[0].count
  }

  #step(what: string): Promise<void> | undefined {
    const state = this.#actors.getStore()
    if (!state || state.done) return undefined
    return new Promise((resolve) => {
      state.go = () => {
        this.#trace.push(`${state.actor} ${what}`)
        resolve()
      }
      this.#changed()
    })
  }
}

/** Explores all schedules depth first: the next run repeats a prefix of the last and turns at its end. */
export class Schedules {
  #next: Actor[] | null = []

  get done(): boolean {
    return this.#next === null
  }

  readonly choose: Choose = (free) => this.#next?.[free] ?? 0

  /** @param taken the choices of the run that just ended */
  advance(taken: readonly Actor[]): void {
    const last = taken.lastIndexOf(0)
    this.#next = last < 0 ? null : [...taken.slice(0, last), 1]
  }
}
