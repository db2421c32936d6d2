import { describe, expect, it } from 'vitest'
import { type Waiting, waitingReason } from './scheduling.ts'

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
