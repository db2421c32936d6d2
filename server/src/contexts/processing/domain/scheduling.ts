/** Why a queued job is not running yet. */
export type WaitingReason = 'no_worker' | 'retry_backoff' | 'requester_limit' | 'project_limit' | 'capacity'

export interface Waiting {
  /** Whether a live, healthy session serves the operation. */
  readonly served: boolean
  /** Whether one of them has a slot free. */
  readonly free: boolean
  readonly backingOff: boolean
  readonly requesterActive: number
  readonly projectActive: number
}

export interface ActiveLimits {
  readonly activePerRequester: number
  readonly activePerProject: number
}

/**
 * The first thing that would have to change; the order is the one people can do most about. Null when nothing would: a
 * worker is about to take it.
 */
export function waitingReason(waiting: Waiting, limits: ActiveLimits): WaitingReason | null {
  if (!waiting.served) return 'no_worker'
  if (waiting.backingOff) return 'retry_backoff'
  if (waiting.requesterActive >= limits.activePerRequester) return 'requester_limit'
  if (waiting.projectActive >= limits.activePerProject) return 'project_limit'
  return waiting.free ? null : 'capacity'
}

export interface LineSpeed {
  /** Attempts that began within the last minute. */
  readonly startedLastMinute: number
  /** Until the first waiting job gives up, or null if none waits in line. */
  readonly secondsToNextExpiry: number | null
}

const longestRetrySeconds = 60

/** When a full line will have room again, in whole seconds: as it has moved lately, or when the first who waits gives up. */
export function retryAfterSeconds({ startedLastMinute, secondsToNextExpiry }: LineSpeed): number {
  const byClaims = startedLastMinute > 0 ? 60 / startedLastMinute : longestRetrySeconds
  const soonest = Math.min(byClaims, secondsToNextExpiry ?? longestRetrySeconds, longestRetrySeconds)
  return Math.max(1, Math.ceil(soonest))
}
