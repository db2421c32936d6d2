import type { Operation, ProblemCode } from '@platen/worker/protocol'
import { PlatenError } from '../../platform/errors.ts'

/** This deployment does not allow the operation, or allows it to no worker. */
export class OperationUnavailableError extends PlatenError {
  override name = 'OperationUnavailableError' as const
  code = 'OPERATION_UNAVAILABLE' as const
  constructor(operation: Operation) {
    super(`This deployment does not offer ${operation}. Its operator can enable it in the deployment file.`)
  }
}

export class ProjectTypeMismatchError extends PlatenError {
  override name = 'ProjectTypeMismatchError' as const
  code = 'PROJECT_TYPE_MISMATCH' as const
  constructor(operation: Operation, type: string) {
    super(`${operation} does not work on ${type} projects.`)
  }
}

/** A refusal of the worker protocol; the edge makes a problem document of it. */
export class WorkerRefusal extends PlatenError {
  override name = 'WorkerRefusal' as const
  readonly code: ProblemCode
  readonly retryAfterSeconds: number | null
  constructor(code: ProblemCode, detail: string, retryAfterSeconds: number | null = null) {
    super(detail)
    this.code = code
    this.retryAfterSeconds = retryAfterSeconds
  }
}

export const claimLost = (): WorkerRefusal =>
  new WorkerRefusal(
    'claim_lost',
    'This claim is not held by this session any more. Stop the work; nothing of it will be used.',
  )
export const claimCancelled = (): WorkerRefusal =>
  new WorkerRefusal('claim_cancelled', 'The job was asked to cancel. Stop the work and report it as failed.')
