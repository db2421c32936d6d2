import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { claimable, type Waiting, waitingReason } from './scheduling.ts'

const limits = { activePerRequester: 4, activePerProject: 2 }
const free: Waiting = { served: true, free: false, backingOff: false, requesterActive: 0, projectActive: 0 }

describe('why a job waits', () => {
  const table: readonly (readonly [Partial<Waiting>, string | null])[] = [
    [{ served: false, requesterActive: 9 }, 'no_worker'],
    [{ backingOff: true }, 'retry_backoff'],
    [{ requesterActive: 4, projectActive: 2 }, 'requester_limit'],
    [{ requesterActive: 3, projectActive: 2 }, 'project_limit'],
    [{ requesterActive: 3, projectActive: 1 }, 'capacity'],
    [{ free: true }, null],
    [{ free: true, projectActive: 2 }, 'project_limit'],
  ]
  for (const [waiting, reason] of table) {
    it(`says ${reason} for ${JSON.stringify(waiting)}`, () =>
      expect(waitingReason({ ...free, ...waiting }, limits)).toBe(reason))
  }
})

describe('how many claims a session may take', () => {
  it('never passes its ceiling together with what it runs', () => {
    const count = fc.integer({ min: 0, max: 300 })
    fc.assert(
      fc.property(count, count, count, (offer, ceiling, open) => {
        const claims = claimable(offer, ceiling, open)
        expect(claims).toBeGreaterThanOrEqual(0)
        expect(claims).toBeLessThanOrEqual(offer)
        if (open <= ceiling) expect(open + claims).toBeLessThanOrEqual(ceiling)
        else expect(claims).toBe(0)
      }),
    )
  })
})
