import { describe, expect, it } from 'vitest'
import type { ClaimHeartbeatResponse } from '../protocol/index.ts'
import type { Clock } from './clock.ts'
import { CoreRefusal, CoreUnavailable, DatabaseDown } from './core-errors.ts'
import { LeaseKeeper } from './lease-keeper.ts'

/** A clock that a test moves. */
class ManualClock implements Clock {
  #now = 0
  readonly #sleepers = new Set<{ readonly at: number; readonly wake: () => void }>()

  now(): number {
    return this.#now
  }

  sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const sleeper = { at: this.#now + Math.max(0, milliseconds), wake: resolve }
      this.#sleepers.add(sleeper)
      const end = () => {
        this.#sleepers.delete(sleeper)
        resolve()
      }
      if (signal?.aborted) end()
      else signal?.addEventListener('abort', end, { once: true })
    })
  }

  /** Moves on step by step, and lets what wakes run before the next step. */
  async advance(milliseconds: number): Promise<void> {
    const end = this.#now + milliseconds
    for (;;) {
      await settle()
      const next = [...this.#sleepers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0]
      if (!next) break
      this.#now = Math.max(this.#now, next.at)
      this.#sleepers.delete(next)
      next.wake()
    }
    this.#now = end
    await settle()
  }
}
const settle = async () => {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve()
}

const refusal = (code: 'claim_lost' | 'claim_cancelled') =>
  new CoreRefusal({ type: 'x', title: 'x', status: 409, detail: 'x', code }, null)
const good: ClaimHeartbeatResponse = { lease_seconds: 30, cancel_requested: false }

function keeper(renew: () => Promise<ClaimHeartbeatResponse>, more: { renewAtOnce?: boolean } = {}) {
  const clock = new ManualClock()
  const times: number[] = []
  const lease = new LeaseKeeper({
    leaseSeconds: 30,
    renewAtOnce: more.renewAtOnce ?? false,
    clock,
    random: () => 0.5,
    renew: () => {
      times.push(clock.now())
      return renew()
    },
  })
  return { clock, lease, times }
}
const hang = () => new Promise<never>(() => {})

describe('a lease', () => {
  it('is renewed at each third of it, and holds', async () => {
    const { clock, lease, times } = keeper(async () => good)
    await clock.advance(95_000)
    expect(times.slice(0, 3)).toEqual([10_000, 20_000, 30_000])
    expect(lease.lost.aborted).toBe(false)
  })

  it('is renewed at once when the claim may be old', async () => {
    const { clock, times } = keeper(async () => good, { renewAtOnce: true })
    await clock.advance(1)
    expect(times).toEqual([0])
  })

  it('ends for its keeper before it ends for Core, when renewals fail', async () => {
    const { clock, lease } = keeper(async () => {
      throw new CoreUnavailable('x')
    })
    await clock.advance(27_900)
    expect(lease.lost.aborted).toBe(false)
    await clock.advance(200)
    expect(lease.lost.reason).toMatchObject({ kind: 'lease_expired' })
    expect(lease.stop.aborted).toBe(true)
  })

  it('ends for its keeper also when a renewal never comes back', async () => {
    const { clock, lease } = keeper(hang)
    await clock.advance(30_000)
    expect(lease.lost.reason).toMatchObject({ kind: 'lease_expired' })
  })

  it('counts from when a renewal was sent, not from when its answer came', async () => {
    const answers: ((answer: ClaimHeartbeatResponse) => void)[] = []
    const { clock, lease } = keeper(() => new Promise((resolve) => answers.push(resolve)))
    await clock.advance(18_000)
    answers[0]?.(good)
    // Sent at 10 s: it holds until 40 s, and two seconds before that its keeper stops.
    await clock.advance(19_900)
    expect(lease.lost.aborted).toBe(false)
    await clock.advance(200)
    expect(lease.lost.reason).toMatchObject({ kind: 'lease_expired' })
  })

  it('holds as long as Core answers that its database is down, and ends when Core is silent', async () => {
    let silent = false
    const { clock, lease } = keeper(async () => {
      throw silent ? new CoreUnavailable('x') : new DatabaseDown('x')
    })
    await clock.advance(120_000)
    expect(lease.lost.aborted).toBe(false)
    silent = true
    await clock.advance(30_000)
    expect(lease.lost.reason).toMatchObject({ kind: 'lease_expired' })
  })

  it('that failed once is tried again soon, and then holds', async () => {
    let calls = 0
    const { clock, lease } = keeper(async () => {
      calls += 1
      if (calls === 1) throw new CoreUnavailable('x')
      return good
    })
    await clock.advance(60_000)
    expect(lease.lost.aborted).toBe(false)
    expect(calls).toBeGreaterThan(3)
  })

  it('that Core knows nothing of is lost at once', async () => {
    const { clock, lease } = keeper(async () => {
      throw refusal('claim_lost')
    })
    await clock.advance(10_001)
    expect(lease.lost.reason).toMatchObject({ kind: 'claim_lost' })
  })

  it('goes on while the work is stopped by a cancellation, so that the end can be reported', async () => {
    const { clock, lease } = keeper(async () => ({ ...good, cancel_requested: true }))
    await clock.advance(10_001)
    expect(lease.stop.reason).toMatchObject({ kind: 'cancelled' })
    expect(lease.lost.aborted).toBe(false)
  })

  it('learns of a cancellation from any call', async () => {
    const { lease } = keeper(async () => good)
    lease.observe(refusal('claim_cancelled'))
    expect(lease.stop.reason).toMatchObject({ kind: 'cancelled' })
    expect(lease.lost.aborted).toBe(false)
  })

  it('is not lost by a renewal that crosses the final report', async () => {
    const { clock, lease } = keeper(async () => {
      throw refusal('claim_lost')
    })
    lease.beginEnd()
    await clock.advance(10_001)
    expect(lease.lost.aborted).toBe(false)
  })

  it('is not renewed after its end, nor stopped', async () => {
    const { clock, lease, times } = keeper(async () => good)
    lease.end()
    await clock.advance(60_000)
    lease.interrupt('shutdown')
    expect(times).toEqual([])
    expect(lease.stop.aborted).toBe(false)
  })
})
