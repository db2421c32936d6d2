/** A wake-up that stays rung until it is reset, so that what happens between look and wait is not missed. */
export class Bell {
  #closed = false
  #rung = false
  #wake = (): void => {}

  /** Whether nobody waits any more. */
  get closed(): boolean {
    return this.#closed
  }

  /** Whether it rang since it was reset. */
  get rung(): boolean {
    return this.#rung
  }

  ring(): void {
    this.#rung = true
    this.#wake()
  }

  reset(): void {
    this.#rung = this.#closed
  }

  /** Rings for ever. */
  close(): void {
    this.#closed = true
    this.ring()
  }

  /** Resolves when rung, or after `milliseconds`. */
  async wait(milliseconds: number): Promise<void> {
    if (this.#rung) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, milliseconds)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}
