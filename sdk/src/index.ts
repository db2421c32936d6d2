export { type BuildOptions, type CallOptions, type JobList, Platen } from './client.ts'
export {
  IdempotencyConflictError,
  NotFoundError,
  OperationUnavailableError,
  PlatenError,
  ProjectTypeMismatchError,
  QuotaExceededError,
  RefusedError,
  ServerError,
  UnauthenticatedError,
  ValidationError,
  type ValidationIssue,
} from './errors.ts'
export { JobHandle } from './job-handle.ts'
export type { TransportOptions } from './transport.ts'
export {
  type Artifact,
  type Capability,
  type Diagnostic,
  isFinished,
  type Job,
  type JobPhase,
  type JobState,
  type LatexEngine,
  type OnError,
  type Project,
  type ProjectFile,
  type ProjectType,
  type WaitingReason,
} from './types.ts'
