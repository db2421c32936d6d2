import type { FailureClass, LimitName } from '@platen/worker/protocol'

/** Why an attempt or a job failed, as it is stored and shown. */
export interface Failure {
  readonly class: FailureClass
  /** One sentence for people. */
  readonly message: string
  /** With `resource_limit`: which bound, and its value. */
  readonly limit: { readonly name: LimitName; readonly value: number } | null
}

export interface RetryPolicy {
  /** Back-off before attempt 2; doubles for each later one. */
  readonly retryBackoffSeconds: number
}

export interface Attempted {
  /** The attempt that just ended, 1-based. */
  readonly number: number
  /** Most attempts the job may have. */
  readonly limit: number
  readonly cancelRequested: boolean
}

/** What follows from a failed attempt. */
export type FailureDecision =
  | { readonly event: 'cancelled' }
  | { readonly event: 'failedForGood' }
  | { readonly event: 'requeued'; readonly delaySeconds: number }

const retryable: readonly FailureClass[] = ['transient_infrastructure', 'worker_interrupted']
const longestBackoffSeconds = 300

/**
 * Core's answer to a failure, whatever the worker would prefer.
 *
 * @param jitter uniform in [0, 1)
 */
export function decideFailure(
  failureClass: FailureClass,
  attempted: Attempted,
  policy: RetryPolicy,
  jitter: number,
): FailureDecision {
  if (attempted.cancelRequested) return { event: 'cancelled' }
  if (!retryable.includes(failureClass) || attempted.number >= attempted.limit) return { event: 'failedForGood' }
  // An interrupted worker says nothing against the job or the infrastructure: another may start at once.
  if (failureClass === 'worker_interrupted') return { event: 'requeued', delaySeconds: 0 }
  const backoff = Math.min(longestBackoffSeconds, policy.retryBackoffSeconds * 2 ** (attempted.number - 1))
  return { event: 'requeued', delaySeconds: backoff * (0.5 + jitter / 2) }
}
