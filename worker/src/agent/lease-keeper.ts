import type { ClaimHeartbeatResponse } from '../protocol/index.ts'
import type { Clock } from './clock.ts'
import { CoreRefusal, DatabaseDown, isClaimLost } from './core-errors.ts'

/** Why an attempt must stop before its end. */
export type InterruptionKind = 'claim_lost' | 'lease_expired' | 'cancelled' | 'shutdown'

export class Interruption extends Error {
  override name = 'Interruption' as const
  readonly kind: InterruptionKind

  constructor(kind: InterruptionKind) {
    super(`the attempt was interrupted: ${kind}`)
    this.kind = kind
  }
}

export interface LeaseKeeperOptions {
  /** Sends one claim heartbeat; it should give up by itself after a third of a lease. */
  readonly renew: (signal: AbortSignal, timeoutMilliseconds: number) => Promise<ClaimHeartbeatResponse>
  readonly leaseSeconds: number
  /** The claim may be older than its receipt (its answer was lost once): renew at once. */
  readonly renewAtOnce: boolean
  readonly clock: Clock
  readonly random?: () => number
}

const safetyMilliseconds = 2000

/**
 * Keeps one claim alive and knows when it no longer is.
 *
 * @remarks Core's fence is what makes a stale attempt harmless; the deadline here only spares the effort. It is counted
 * from when the last answered renewal was sent, because Core cannot have renewed before that. An answer that the database
 * does not run counts as a renewal, and silence never does.
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions
  readonly #lost = new AbortController()
  readonly #stop = new AbortController()
  readonly #over = new AbortController()
  #leaseMilliseconds: number
  #deadline: number
  #ending = false

  constructor(options: LeaseKeeperOptions) {
    this.#options = options
    this.#leaseMilliseconds = options.leaseSeconds * 1000
    this.#deadline = this.#deadlineFrom(options.clock.now())
    void this.#renewLoop()
    void this.#fenceLoop()
  }

  /** Aborts when nothing may be sent for the claim any more. */
  get lost(): AbortSignal {
    return this.#lost.signal
  }

  /** Aborts when the work must stop: also on cancellation and shutdown, when the end is still to be reported. */
  get stop(): AbortSignal {
    return this.#stop.signal
  }

  /** Learns from an error of any call about this claim. */
  observe(error: unknown): void {
    if (isClaimLost(error)) this.#lose('claim_lost')
    else if (error instanceof CoreRefusal && error.code === 'claim_cancelled') this.interrupt('cancelled')
  }

  interrupt(kind: 'cancelled' | 'shutdown'): void {
    if (!this.#over.signal.aborted) this.#stop.abort(new Interruption(kind))
  }

  /**
   * From here on the final report alone decides: it may close the claim while a renewal is under way, and then that
   * renewal's `claim_lost` means nothing.
   */
  beginEnd(): void {
    this.#ending = true
  }

  /** Stops renewing; the signals keep their state. */
  end(): void {
    this.#over.abort()
  }

  #lose(kind: 'claim_lost' | 'lease_expired'): void {
    if (this.#over.signal.aborted || (this.#ending && kind === 'claim_lost')) return
    const interruption = new Interruption(kind)
    this.#lost.abort(interruption)
    this.#stop.abort(interruption)
    this.#over.abort()
  }

  #deadlineFrom(sent: number): number {
    return sent + this.#leaseMilliseconds - Math.min(safetyMilliseconds, this.#leaseMilliseconds / 4)
  }

  async #renewLoop(): Promise<void> {
    const { clock, renew, renewAtOnce, random = Math.random } = this.#options
    const over = this.#over.signal
    let next = clock.now() + (renewAtOnce ? 0 : this.#leaseMilliseconds / 3)
    for (;;) {
      await clock.sleep(next - clock.now(), over)
      if (over.aborted) return
      const sent = clock.now()
      try {
        const answer = await renew(over, this.#leaseMilliseconds / 3)
        this.#leaseMilliseconds = answer.lease_seconds * 1000
        this.#deadline = Math.max(this.#deadline, this.#deadlineFrom(sent))
        next = sent + this.#leaseMilliseconds / 3
        if (answer.cancel_requested) this.interrupt('cancelled')
      } catch (error) {
        this.observe(error)
        // A lease has its length anew from the start of the database, and that start is still to come.
        if (error instanceof DatabaseDown) this.#deadline = Math.max(this.#deadline, this.#deadlineFrom(sent))
        next = clock.now() + (this.#leaseMilliseconds / 20) * (0.5 + random())
      }
    }
  }

  async #fenceLoop(): Promise<void> {
    const { clock } = this.#options
    const over = this.#over.signal
    while (!over.aborted) {
      const left = this.#deadline - clock.now()
      if (left <= 0) this.#lose('lease_expired')
      else await clock.sleep(left, over)
    }
  }
}
