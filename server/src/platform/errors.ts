/** Base of every error Platen raises on purpose: a stable `code`, facts as fields, a message that says what to do. */
export abstract class PlatenError extends Error {
  abstract readonly code: string
}

/** Of a thing the caller may not see, and of a thing that is not there: both look the same. */
export class NotFoundError extends PlatenError {
  override name = 'NotFoundError' as const
  code = 'NOT_FOUND' as const
  constructor(what = 'Nothing') {
    super(`${what} with this id exists, or you may not see it.`)
  }
}

/** No token, or one that is unknown, expired or revoked. */
export class UnauthenticatedError extends PlatenError {
  override name = 'UnauthenticatedError' as const
  code = 'UNAUTHENTICATED' as const
}

export interface ValidationIssue {
  /** Where: argument names, or `files` and a project path. */
  readonly path: readonly string[]
  readonly message: string
  /** Closed, lower-case: `required`, `invalid`, `too_long`, `too_large`, `unsafe_path`, `reserved_name`, `name_collision`, `not_found`. */
  readonly code: string
}

/** Input that can never be accepted as it is; says all that is wrong at once. */
export class ValidationError extends PlatenError {
  override name = 'ValidationError' as const
  code = 'VALIDATION_FAILED' as const
  readonly issues: readonly ValidationIssue[]
  constructor(issues: readonly ValidationIssue[]) {
    super(issues.map((issue) => `${issue.path.join('/')}: ${issue.message}`).join(' '))
    this.issues = issues
  }
}

export class QuotaExceededError extends PlatenError {
  override name = 'QuotaExceededError' as const
  code = 'QUOTA_EXCEEDED' as const
  readonly retryAfterSeconds: number
  constructor(message: string, retryAfterSeconds: number) {
    super(message)
    this.retryAfterSeconds = retryAfterSeconds
  }
}

export class IdempotencyConflictError extends PlatenError {
  override name = 'IdempotencyConflictError' as const
  code = 'IDEMPOTENCY_CONFLICT' as const
  constructor(key: string) {
    super(
      `The idempotency key "${key}" was already used for another command. Use a new key, or send the first command again unchanged.`,
    )
  }
}
