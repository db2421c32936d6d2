/** Base of all errors of the client; `code` is for programs, the message for people. */
export class PlatenError extends Error {
  override name: string = 'PlatenError'
  readonly code: string

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The server could not be reached, or answered nothing that makes sense. */
export class ServerError extends PlatenError {
  override name = 'ServerError' as const
}

/** No token, or one that the server does not know. */
export class UnauthenticatedError extends PlatenError {
  override name = 'UnauthenticatedError' as const
}

/** There is no such thing, or the token may not see it. */
export class NotFoundError extends PlatenError {
  override name = 'NotFoundError' as const
}

/** An expected failure: nothing was done. */
export class RefusedError extends PlatenError {
  override name: string = 'RefusedError'
}

export interface ValidationIssue {
  readonly path: readonly string[]
  readonly message: string
  readonly code: string
}

export class ValidationError extends RefusedError {
  override name = 'ValidationError' as const
  readonly issues: readonly ValidationIssue[]

  constructor(message: string, issues: readonly ValidationIssue[]) {
    super('VALIDATION_FAILED', message)
    this.issues = issues
  }
}

export class QuotaExceededError extends RefusedError {
  override name = 'QuotaExceededError' as const
  readonly retryAfterSeconds: number

  constructor(message: string, retryAfterSeconds: number) {
    super('QUOTA_EXCEEDED', message)
    this.retryAfterSeconds = retryAfterSeconds
  }
}

export class IdempotencyConflictError extends RefusedError {
  override name = 'IdempotencyConflictError' as const
}

/** The deployment does not offer the operation. */
export class OperationUnavailableError extends RefusedError {
  override name = 'OperationUnavailableError' as const
}

/** The operation does not work on projects of this type. */
export class ProjectTypeMismatchError extends RefusedError {
  override name = 'ProjectTypeMismatchError' as const
}

interface ErrorMember {
  readonly __typename: string
  readonly message?: string
  readonly code?: string
  readonly issues?: readonly ValidationIssue[]
  readonly retryAfterSeconds?: number
}

/** The error that a member of a result union stands for. */
export function refusalOf({
  __typename,
  message = 'The server refused.',
  code = 'REFUSED',
  ...more
}: ErrorMember): RefusedError {
  if (__typename === 'ValidationError') return new ValidationError(message, more.issues ?? [])
  if (__typename === 'QuotaExceededError') return new QuotaExceededError(message, more.retryAfterSeconds ?? 5)
  if (__typename === 'IdempotencyConflictError') return new IdempotencyConflictError(code, message)
  if (__typename === 'OperationUnavailableError') return new OperationUnavailableError(code, message)
  if (__typename === 'ProjectTypeMismatchError') return new ProjectTypeMismatchError(code, message)
  return new RefusedError(code, message)
}
