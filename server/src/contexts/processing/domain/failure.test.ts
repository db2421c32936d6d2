import { type FailureClass, failureClasses } from '@platen/worker/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decideFailure } from './failure.ts'

const policy = { retryBackoffSeconds: 2 }
const first = { number: 1, limit: 3, cancelRequested: false }

describe('what follows from a failed attempt', () => {
  const terminal: readonly FailureClass[] = [
    'invalid_input',
    'processor_rejected',
    'unsupported_dependency',
    'resource_limit',
    'contract_violation',
  ]
  for (const failureClass of terminal) {
    it(`ends the job at the first ${failureClass}`, () => {
      expect(decideFailure(failureClass, first, policy, 0)).toEqual({ event: 'failedForGood' })
    })
  }

  it('lets another worker start at once when one was interrupted', () => {
    expect(decideFailure('worker_interrupted', first, policy, 0.9)).toEqual({ event: 'requeued', delaySeconds: 0 })
  })

  it('backs off from transient failures, longer each time', () => {
    const delay = (number: number) =>
      decideFailure('transient_infrastructure', { ...first, number, limit: 99 }, policy, 0.5)
    expect([delay(1), delay(2), delay(3), delay(40)]).toEqual(
      [1.5, 3, 6, 225].map((delaySeconds) => ({ event: 'requeued', delaySeconds })),
    )
  })

  it('never passes the limit of attempts, and never retries what was cancelled', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...failureClasses),
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 20 }),
        fc.boolean(),
        fc.float({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (failureClass, number, limit, cancelRequested, jitter) => {
          const decision = decideFailure(failureClass, { number, limit, cancelRequested }, policy, jitter)
          if (cancelRequested) expect(decision.event).toBe('cancelled')
          else if (number >= limit) expect(decision.event).toBe('failedForGood')
          if (decision.event === 'requeued') expect(decision.delaySeconds).toBeGreaterThanOrEqual(0)
        },
      ),
    )
  })
})
