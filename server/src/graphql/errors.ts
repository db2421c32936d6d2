import { randomUUID } from 'node:crypto'
import { PothosValidationError } from '@pothos/core'
import { GraphQLError } from 'graphql'
import type { Logger } from 'pino'
import { OperationUnavailableError, ProjectTypeMismatchError } from '../contexts/processing/index.ts'
import {
  IdempotencyConflictError,
  NotFoundError,
  type PlatenError,
  QuotaExceededError,
  UnauthenticatedError,
  ValidationError,
  type ValidationIssue,
} from '../platform/errors.ts'
import { builder, closedEnum } from './builder.ts'

type ErrorCode =
  | 'IDEMPOTENCY_CONFLICT'
  | 'QUOTA_EXCEEDED'
  | 'OPERATION_UNAVAILABLE'
  | 'VALIDATION_FAILED'
  | 'PROJECT_TYPE_MISMATCH'

const ErrorCodeEnum = closedEnum<ErrorCode>('ErrorCode', 'Why a mutation was refused.', {
  IDEMPOTENCY_CONFLICT: 'The idempotency key was used for another command.',
  QUOTA_EXCEEDED: 'A limit of the deployment is reached; it passes.',
  OPERATION_UNAVAILABLE: 'The deployment does not offer the operation.',
  VALIDATION_FAILED: 'The input cannot be accepted as it is.',
  PROJECT_TYPE_MISMATCH: 'The operation does not work on projects of this type.',
})

/** Shared by all expected failures, so that `... on Error { message code }` always works. */
const ErrorInterface = builder.interfaceRef<PlatenError>('Error').implement({
  description: 'An expected failure: what went wrong and what to do about it.',
  fields: (t) => ({
    message: t.exposeString('message', { description: 'A sentence for people.' }),
    code: t.field({ type: ErrorCodeEnum, description: 'For programs.', resolve: (error) => error.code as ErrorCode }),
  }),
})

const ValidationIssueType = builder.objectRef<ValidationIssue>('ValidationIssue').implement({
  description: 'One thing that is wrong with an input.',
  fields: (t) => ({
    path: t.field({
      type: ['String'],
      description: 'Where: names of input fields, or `files` and a path of the project.',
      resolve: (issue) => [...issue.path],
    }),
    message: t.exposeString('message', { description: 'A sentence for people.' }),
    code: t.exposeString('code', {
      description:
        'For programs: `required`, `invalid`, `too_long`, `too_large`, `unsafe_path`, `reserved_name`, `name_collision`, `not_found`, `role_too_weak` or `last_owner`.',
    }),
  }),
})

builder.objectType(ValidationError, {
  name: 'ValidationError',
  description: 'The input cannot be accepted as it is. Nothing was done.',
  interfaces: [ErrorInterface],
  fields: (t) => ({
    issues: t.field({
      type: [ValidationIssueType],
      description: 'All that is wrong.',
      resolve: (error) => [...error.issues],
    }),
  }),
})
builder.objectType(QuotaExceededError, {
  name: 'QuotaExceededError',
  description: 'A limit of the deployment is reached. Nothing was done.',
  interfaces: [ErrorInterface],
  fields: (t) => ({
    retryAfterSeconds: t.exposeInt('retryAfterSeconds', { description: 'When it is worth trying again.' }),
  }),
})
builder.objectType(IdempotencyConflictError, {
  name: 'IdempotencyConflictError',
  description: 'The idempotency key was used for another command. Nothing was done.',
  interfaces: [ErrorInterface],
})
builder.objectType(OperationUnavailableError, {
  name: 'OperationUnavailableError',
  description: 'The deployment does not offer the operation. Nothing was done.',
  interfaces: [ErrorInterface],
})
builder.objectType(ProjectTypeMismatchError, {
  name: 'ProjectTypeMismatchError',
  description: 'The operation does not work on projects of this type. Nothing was done.',
  interfaces: [ErrorInterface],
})

/** Keeps what is ours, and hides the rest behind an id that the log knows. */
export const maskError =
  (log: Logger) =>
  (error: unknown): GraphQLError => {
    const original = error instanceof GraphQLError ? error.originalError : error
    const refusal = (message: string, code: string, extensions = {}) =>
      new GraphQLError(message, {
        ...(error instanceof GraphQLError ? { nodes: error.nodes ?? null, path: error.path ?? null } : {}),
        extensions: { code, ...extensions },
      })
    if (original instanceof NotFoundError) return refusal(original.message, 'NOT_FOUND')
    // The relay plugin's word for an id of another type than the argument is for.
    if (original instanceof PothosValidationError)
      return refusal('Nothing with this id exists, or you may not see it.', 'NOT_FOUND')
    if (original instanceof UnauthenticatedError)
      return refusal(original.message, 'UNAUTHENTICATED', { http: { status: 401 } })
    if (original instanceof ValidationError)
      return refusal(original.message, original.code, { issues: original.issues })
    // Syntax, validation and coercion errors of GraphQL itself have no original, or one that is again theirs.
    if (
      error instanceof GraphQLError &&
      (original === undefined || original === null || original instanceof GraphQLError)
    )
      return error
    const id = randomUUID()
    log.error({ err: original, error_id: id }, 'a GraphQL request failed')
    return refusal(`Something went wrong. The log of the server knows more under ${id}.`, 'INTERNAL', { errorId: id })
  }
