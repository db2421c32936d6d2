import type { Bell } from '../../../platform/bell.ts'
import type { Database } from '../../../platform/database.ts'
import type { Signals } from '../../../platform/signals.ts'
import * as sessions from '../store/sessions.ts'
import { sessionTopic } from './context.ts'

/** A session nobody called for is forgotten here after this long; the database knows it. */
const forgetMilliseconds = 10 * 60_000
/** What was read is believed for this long when no announcement and no flush renewed it. */
const believeMilliseconds = 60_000

const answersKept = 32

interface Known {
  session: sessions.Session
  readAt: number
  usedAt: number
  /** It changed since it was read. */
  stale: boolean
  /** It called since its liveness was last written. */
  heard: boolean
  readonly bells: Set<Bell>
  /** What its worker was told already. */
  readonly told: Set<string>
  /** Keys of its last calls for work that got some. */
  readonly answered: Set<string>
  /** Health as its worker last reported it. */
  readonly health: Map<string, string>
  readonly unsubscribe: () => void
}

/**
 * What this replica remembers of the sessions that call it, so that an idle worker costs the database nothing of its own:
 * liveness is written for all of them in one statement now and then. Nothing is decided by it; claims compare with the
 * database.
 */
export class SessionBook {
  readonly #database: Database
  readonly #signals: Signals
  readonly #known = new Map<string, Known>()

  constructor(database: Database, signals: Signals) {
    this.#database = database
    this.#signals = signals
  }

  /** The session while it is open. */
  async find(id: string): Promise<sessions.Session | null> {
    const known = this.#known.get(id)
    const now = performance.now()
    if (known && !known.stale && now - known.readAt < believeMilliseconds) {
      known.usedAt = now
      return known.session
    }
    if (known) known.stale = false
    // Subscribed before it is read: what changes meanwhile makes it stale again.
    const fresh = known ?? this.#remember(id)
    const [session] = await sessions.findOpen(this.#database.pool, [id])
    if (!session) {
      this.#forget(id)
      return null
    }
    this.#update(fresh, session)
    return session
  }

  /** The session's worker called: that it lives will be written. */
  hear(id: string): void {
    const known = this.#known.get(id)
    if (known) known.heard = true
  }

  /** Rings when the session changes, in whatever replica. @returns what ends it */
  watch(id: string, bell: Bell): () => void {
    const known = this.#known.get(id)
    known?.bells.add(bell)
    return () => known?.bells.delete(bell)
  }

  /** What its worker has to be told and was not: of these, each is given once. */
  untold({ id, cancelledClaims, draining }: sessions.Session): readonly string[] {
    const told = this.#known.get(id)?.told ?? new Set()
    return [...cancelledClaims, ...(draining ? ['draining'] : [])].filter((each) => !told.has(each))
  }

  tell(id: string, what: readonly string[]): void {
    for (const each of what) this.#known.get(id)?.told.add(each)
  }

  /** Remembers that a call for work was answered with claims. */
  noteAnswer(id: string, key: string): void {
    const { answered } = this.#known.get(id) ?? {}
    answered?.add(key)
    if (answered && answered.size > answersKept) answered.delete([...answered][0] as string)
  }

  /**
   * Whether a call for work may be one that was answered before: the session holds claims, or the key is known here. What
   * another replica answered and what is over by now is not worth a look for each call of an idle worker.
   */
  mayBeRepeated({ id, openClaims }: sessions.Session, key: string): boolean {
    return openClaims > 0 || this.#known.get(id)?.answered.has(key) === true
  }

  /** Whether this health is news. */
  isNewHealth(id: string, operation: string, health: string): boolean {
    const known = this.#known.get(id)
    if (known?.health.get(operation) === health) return false
    known?.health.set(operation, health)
    return true
  }

  /** Writes who was heard of since the last time, and reads how they stand. */
  async flush(): Promise<number> {
    const now = performance.now()
    for (const [id, known] of this.#known) if (now - known.usedAt > forgetMilliseconds) this.#forget(id)
    const heard = [...this.#known].filter(([, known]) => known.heard)
    if (heard.length === 0) return 0
    for (const [, known] of heard) known.heard = false
    try {
      const open = await sessions.hear(
        this.#database.pool,
        heard.map(([id]) => id),
      )
      const byId = new Map(open.map((session) => [session.id, session]))
      for (const [id, known] of heard) {
        const session = byId.get(id)
        if (session) this.#update(known, session)
        else this.#forget(id)
      }
    } catch (error) {
      for (const [, known] of heard) known.heard = true
      throw error
    }
    return heard.length
  }

  close(): void {
    for (const id of this.#known.keys()) this.#forget(id)
  }

  #remember(id: string): Known {
    const known: Known = {
      session: { id, workerName: '', draining: false, cancelledClaims: [], openClaims: 0 },
      readAt: Number.NEGATIVE_INFINITY,
      usedAt: performance.now(),
      stale: false,
      heard: false,
      bells: new Set(),
      told: new Set(),
      answered: new Set(),
      health: new Map(),
      unsubscribe: this.#signals.subscribe(sessionTopic(id), () => {
        known.stale = true
        for (const bell of known.bells) bell.ring()
      }),
    }
    this.#known.get(id)?.unsubscribe()
    this.#known.set(id, known)
    return known
  }

  #update(known: Known, session: sessions.Session): void {
    const changed =
      session.openClaims > known.session.openClaims ||
      session.draining !== known.session.draining ||
      session.cancelledClaims.length > known.session.cancelledClaims.length
    known.session = session
    known.readAt = performance.now()
    for (const claim of known.told)
      if (claim !== 'draining' && !session.cancelledClaims.includes(claim)) known.told.delete(claim)
    if (changed) for (const bell of known.bells) bell.ring()
  }

  #forget(id: string): void {
    const known = this.#known.get(id)
    this.#known.delete(id)
    known?.unsubscribe()
    for (const bell of known?.bells ?? []) bell.ring()
  }
}
