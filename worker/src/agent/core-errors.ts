import type { Problem, ProblemCode } from '../protocol/index.ts'

/** Core understood the call and refused it. */
export class CoreRefusal extends Error {
  override name = 'CoreRefusal' as const
  readonly code: ProblemCode
  readonly status: number
  readonly retryAfterMilliseconds: number | null

  constructor(problem: Problem, retryAfterMilliseconds: number | null) {
    super(`Core refused: ${problem.code}: ${problem.detail}`)
    this.code = problem.code
    this.status = problem.status
    this.retryAfterMilliseconds = retryAfterMilliseconds
  }
}

/** No usable answer: the network, a time limit, a 5xx, or a body that is not of the protocol. The call may have had its effect. */
export class CoreUnavailable extends Error {
  override name: 'CoreUnavailable' | 'DatabaseDown' = 'CoreUnavailable'
}

/** Core answered that its database does not run: nobody can take a claim away before it runs again. */
export class DatabaseDown extends CoreUnavailable {
  override name = 'DatabaseDown' as const
}

/** Whether the same call, with the same idempotency key, may succeed later. */
export function isRetryable(error: unknown): boolean {
  if (error instanceof CoreUnavailable) return true
  if (!(error instanceof CoreRefusal)) return false
  return error.code === 'idempotency_key_in_use' || error.status === 408 || error.status === 429
}

/** Whether the session's token is no longer worth anything. */
export function isSessionLost(error: unknown): boolean {
  return error instanceof CoreRefusal && (error.status === 401 || error.code === 'session_lost')
}

/** Whether the claim the call was about is no longer ours. */
export function isClaimLost(error: unknown): boolean {
  if (isSessionLost(error)) return true
  return error instanceof CoreRefusal && (error.code === 'claim_lost' || error.code === 'not_found')
}
