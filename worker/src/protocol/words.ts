/**
 * The closed vocabularies that Core and workers share. Each is one `as const` list with a type of the same name,
 * so that zod, GraphQL, SQL checks and OpenAPI are all fed from here.
 */

/** Versioned semantic contracts that Core knows. */
export const operations = ['latex.compile.pdf/v1', 'typst.export.pptx/v1', 'pptx.import.typst/v1'] as const
export type Operation = (typeof operations)[number]

/** What a running or finishing job is doing. No percentages: a toolchain has no trustworthy measure of progress. */
export const phases = [
  'capturing_input',
  'waiting_for_worker',
  'processing',
  'uploading_result',
  'validating_result',
  'publishing_result',
] as const
export type Phase = (typeof phases)[number]

/** The phases that a worker may report; the others are Core's own. */
export const workerPhases = ['processing', 'uploading_result'] as const satisfies readonly Phase[]
export type WorkerPhase = (typeof workerPhases)[number]

/** Why an attempt failed. Core, not the worker, decides what follows from it. */
export const failureClasses = [
  'invalid_input',
  'processor_rejected',
  'unsupported_dependency',
  'resource_limit',
  'transient_infrastructure',
  'worker_interrupted',
  'contract_violation',
] as const
export type FailureClass = (typeof failureClasses)[number]

/** Which bound a `resource_limit` failure hit. */
export const limitNames = [
  'wall_seconds',
  'cpu_seconds',
  'memory_bytes',
  'processes',
  'file_bytes',
  'workspace_bytes',
  'workspace_files',
  'output_bytes',
] as const
export type LimitName = (typeof limitNames)[number]

/** Engines of `latex.compile.pdf/v1`. */
export const latexEngines = ['pdflatex', 'xelatex', 'lualatex'] as const
export type LatexEngine = (typeof latexEngines)[number]

/** What becomes of a document that TeX finished by recovering from errors. */
export const onErrorPolicies = ['fail', 'publish'] as const
export type OnError = (typeof onErrorPolicies)[number]

export const severities = ['error', 'warning', 'info'] as const
export type Severity = (typeof severities)[number]

/** Result roles that any operation may stage. Which of them an operation declares is in its registry entry. */
export const artifactRoles = ['pdf', 'log', 'synctex', 'pptx', 'report', 'bundle'] as const
export type ArtifactRole = (typeof artifactRoles)[number]

/** Codes of the protocol's problem documents. */
export const problemCodes = [
  'unauthorized',
  'not_found',
  'invalid_request',
  'idempotency_key_missing',
  'idempotency_key_in_use',
  'idempotency_key_reused',
  'session_lost',
  'claim_lost',
  'claim_cancelled',
  'ticket_invalid',
  'digest_mismatch',
  'length_mismatch',
  'result_incomplete',
  'payload_too_large',
  'database_unavailable',
  'internal',
] as const
export type ProblemCode = (typeof problemCodes)[number]
