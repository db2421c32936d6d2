/** Numbers from 0, each held by one at a time. */
export class Slots {
  readonly #free: number[]

  constructor(count: number) {
    this.#free = Array.from({ length: count }, (_, index) => count - 1 - index)
  }

  /** @throws {Error} if all are held: whoever opens more workspaces than it has slots for is at fault */
  take(): number {
    const slot = this.#free.pop()
    if (slot === undefined) throw new Error('all slots of the sandbox are in use')
    return slot
  }

  give(slot: number): void {
    this.#free.push(slot)
  }
}
