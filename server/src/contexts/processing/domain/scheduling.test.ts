import { describe, expect, it } from 'vitest'
import { retryAfterSeconds, type Waiting, waitingReason } from './scheduling.ts'

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

describe('when a full line has room again', () => {
  it.each([
    ['as often as jobs started lately', { startedLastMinute: 20, secondsToNextExpiry: 3600 }, 3],
    ['after a second at least', { startedLastMinute: 600, secondsToNextExpiry: null }, 1],
    ['when the first who waits gives up', { startedLastMinute: 0, secondsToNextExpiry: 12.2 }, 13],
    ['after a minute, if nothing moves', { startedLastMinute: 0, secondsToNextExpiry: 86_000 }, 60],
    ['at once, if somebody should have given up already', { startedLastMinute: 0, secondsToNextExpiry: -5 }, 1],
  ])('is %s', (_when, speed, seconds) => {
    expect(retryAfterSeconds(speed)).toBe(seconds)
  })
})
