import type { Job } from '../types.ts'

/** Exit codes of the command. */
export const exitCodes = { succeeded: 0, jobFailed: 1, error: 2 } as const

/** The command cannot do what was asked; its message says what to change. */
export class UsageError extends Error {
  override name = 'UsageError' as const
}

export const exitCodeOf = (job: Job): number => (job.state === 'SUCCEEDED' ? exitCodes.succeeded : exitCodes.jobFailed)
