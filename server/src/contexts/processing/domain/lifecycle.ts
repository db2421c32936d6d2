/** States of a job, in the order of a successful life. */
export const jobStates = [
  'preparing',
  'queued',
  'running',
  'finalizing',
  'succeeded',
  'failed',
  'cancelled',
  'expired',
] as const
export type JobState = (typeof jobStates)[number]

/** What can happen to a job. */
export type JobEvent =
  | 'captured'
  | 'cacheHit'
  | 'captureFailed'
  | 'cancelled'
  | 'abandoned'
  | 'claimed'
  | 'failedForGood'
  | 'waitExpired'
  | 'requeued'
  | 'delivered'
  | 'takenOver'
  | 'published'
  | 'rejected'

/** Every legal move of a job. A pair that is absent is illegal; nothing else decides a state. */
export const moves = {
  preparing: {
    captured: 'queued',
    cacheHit: 'succeeded',
    captureFailed: 'failed',
    cancelled: 'cancelled',
    abandoned: 'expired',
  },
  queued: { claimed: 'running', failedForGood: 'failed', cancelled: 'cancelled', waitExpired: 'expired' },
  running: { requeued: 'queued', delivered: 'finalizing', failedForGood: 'failed', cancelled: 'cancelled' },
  finalizing: { takenOver: 'finalizing', published: 'succeeded', rejected: 'failed' },
  succeeded: {},
  failed: {},
  cancelled: {},
  expired: {},
} as const satisfies Record<JobState, Partial<Record<JobEvent, JobState>>>

/** The state after an event, or null if the event cannot happen in this state. */
export function next(state: JobState, event: JobEvent): JobState | null {
  const from: Partial<Record<JobEvent, JobState>> = moves[state]
  return from[event] ?? null
}

/** Whether a job in this state will never change again. */
export const isTerminal = (state: JobState): boolean => Object.keys(moves[state]).length === 0
