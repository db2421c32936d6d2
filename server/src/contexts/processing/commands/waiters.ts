import type { Operation } from '@platen/worker/protocol'
import type { Bell } from '../../../platform/bell.ts'

interface Line {
  /** In the order of their coming: the longest waiting is woken first. */
  readonly bells: Set<Bell>
  /** Grows with everything that may have made a job claimable. */
  news: number
  /** The news at which a look found nothing for anyone; as long as there is no more, nobody has to look. */
  emptyAt: number
  /** Jobs announced that nobody was woken for yet. */
  pending: number
  /** There may be more than was announced: whoever finds work wakes another. */
  uncounted: boolean
}

/**
 * The `acquire` calls that wait in this replica. A job wakes as many as there are jobs, oldest first; the others do not
 * look, and a call that comes while nothing is to be had does not look either. All of it is a hint: who is woken looks in
 * the database, and the regular look of the replica makes up for a hint that was lost.
 */
export class Waiters {
  readonly #lines = new Map<Operation, Line>()

  /** Waits from now on; before the first look, so that what happens between look and wait is not missed. */
  enter(operation: Operation, bell: Bell): () => void {
    const { bells } = this.#line(operation)
    bells.add(bell)
    return () => bells.delete(bell)
  }

  /** @param count jobs that may be claimable now; 0 when that is not known */
  announce(operation: Operation, count: number): void {
    const line = this.#line(operation)
    line.news += 1
    if (count === 0) line.uncounted = true
    line.pending += Math.max(1, count)
    this.#wake(line)
  }

  /** The replica saw jobs in line by itself: they may be blocked, or their announcement was lost. */
  sweep(operation: Operation): void {
    const line = this.#line(operation)
    if (line.bells.size > 0 && line.pending === 0) this.announce(operation, 0)
  }

  /** Whether a look would find nothing, as far as is known here. */
  isEmpty(operation: Operation): boolean {
    const { emptyAt, news } = this.#line(operation)
    return emptyAt === news
  }

  /** To be taken before a look and given to {@link foundNothing}. */
  news(operation: Operation): number {
    return this.#line(operation).news
  }

  /** A look of a session with room found nothing, and passed nothing over that another was just holding. */
  foundNothing(operation: Operation, news: number): void {
    const line = this.#line(operation)
    if (line.news !== news) return
    line.emptyAt = news
    line.pending = 0
    line.uncounted = false
  }

  /** @param all whether the caller took as many as it could, so that there may be more */
  claimed(operation: Operation, count: number, all: boolean): void {
    const line = this.#line(operation)
    line.pending = Math.max(0, line.pending - count + 1)
    if (line.uncounted && all) line.pending = Math.max(1, line.pending)
    this.#wake(line)
  }

  get waiting(): number {
    return [...this.#lines.values()].reduce((sum, line) => sum + line.bells.size, 0)
  }

  #wake(line: Line): void {
    for (const bell of line.bells) {
      if (line.pending === 0) return
      line.pending -= 1
      // Whoever is woken looks once; it waits again, behind the others, if there was nothing.
      line.bells.delete(bell)
      bell.ring()
    }
  }

  #line(operation: Operation): Line {
    const line = this.#lines.get(operation) ?? { bells: new Set(), news: 0, emptyAt: -1, pending: 0, uncounted: true }
    this.#lines.set(operation, line)
    return line
  }
}
