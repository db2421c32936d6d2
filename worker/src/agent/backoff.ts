const baseMilliseconds = 500
const capMilliseconds = 30_000

/**
 * Delays for repeated attempts, with decorrelated jitter: each lies between half a second and three times the last,
 * and never above 30 s, so that a fleet that failed together does not return together.
 */
export class Backoff {
  #random: () => number
  #last = baseMilliseconds

  /** @param random uniform in [0, 1) */
  constructor(random: () => number = Math.random) {
    this.#random = random
  }

  /** The next delay in milliseconds. */
  next(): number {
    const ceiling = Math.min(capMilliseconds, this.#last * 3)
    this.#last = baseMilliseconds + this.#random() * (ceiling - baseMilliseconds)
    return this.#last
  }

  reset(): void {
    this.#last = baseMilliseconds
  }
}
