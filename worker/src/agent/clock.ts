import { setTimeout as wait } from 'node:timers/promises'

/** Time as the agent's loops see it, so that tests can be their own clock. */
export interface Clock {
  /** Milliseconds of a monotonic clock; only differences mean something. */
  now(): number
  /** Resolves after `milliseconds`, or at once when the signal aborts; the caller looks which. */
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>
}

export const systemClock: Clock = {
  now: () => performance.now(),
  async sleep(milliseconds, signal) {
    await wait(Math.max(0, milliseconds), undefined, signal === undefined ? {} : { signal }).catch(() => {})
  },
}
