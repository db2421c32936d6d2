import { z } from 'zod'
import {
  artifactRoles,
  failureClasses,
  latexEngines,
  limitNames,
  onErrorPolicies,
  operations,
  problemCodes,
  severities,
  workerPhases,
} from './words.ts'

/** Text as PostgreSQL can keep it: no NUL, no half of a surrogate pair. */
const isStorable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed()
const text = () => z.string().refine(isStorable, 'has a NUL or half of a surrogate pair')

/** Lower-case hexadecimal SHA-256. */
export const sha256 = z.string().regex(/^[0-9a-f]{64}$/)
const uuid = z.uuid()
const byteCount = z.int().min(0)

/** One finding about a document, as people read it: `file:line: message`. */
export const diagnostic = z.strictObject({
  severity: z.enum(severities),
  /** Path inside the project, or null when the toolchain names none. */
  file: text().max(1024).nullable(),
  /** 1-based, or null. */
  line: z.int().min(1).nullable(),
  message: text().min(1).max(2000),
  /** The lines of the log around the finding; never more than a screenful. */
  context: text().max(4000).nullable(),
  /** What to do about it, where we know. */
  hint: text().max(1000).nullable(),
})
export type Diagnostic = z.infer<typeof diagnostic>

/** Bounds of one attempt, from the operation's limits in the deployment TOML. */
export const limits = z.strictObject({
  wall_seconds: z.number().positive(),
  cpu_seconds: z.int().positive(),
  memory_bytes: byteCount,
  processes: z.int().positive(),
  /** Largest single file a processor may write. */
  file_bytes: byteCount,
  /** Everything a processor may keep on disk at once. */
  workspace_bytes: byteCount,
  workspace_files: z.int().positive(),
  /** Largest staged result of one role. */
  output_bytes: byteCount,
})
export type Limits = z.infer<typeof limits>

/** Options of `latex.compile.pdf/v1`. Null means: let the document's magic comment, the project or the default decide. */
export const latexOptions = z.strictObject({
  engine: z.enum(latexEngines).nullable(),
  entry_path: z.string().nullable(),
  on_error: z.enum(onErrorPolicies),
})
export type LatexOptions = z.infer<typeof latexOptions>

export const processorRegistration = z.strictObject({
  operation: z.enum(operations),
  /** For example `latex`. */
  name: text().min(1).max(100),
  version: text().min(1).max(100),
  /** SHA-256 over processor version and toolchain: two workers with equal contracts give equal results. */
  contract: sha256,
  /** Claims this session will ever hold at once for this processor. */
  slots: z.int().min(1).max(256),
  /** What the toolchain offers (engines, TeX Live year, packages, fonts): shown in `capabilities`. At most 256 KiB as JSON. */
  facts: z.record(z.string(), z.json()),
})
export type ProcessorRegistration = z.infer<typeof processorRegistration>

export const openSessionRequest = z.strictObject({
  /** Stable for one worker process; a new session of the same instance ends the old one. */
  instance_id: uuid,
  executor: z.enum(['bubblewrap', 'subprocess']),
  processors: z.array(processorRegistration).min(1).max(32),
})
export type OpenSessionRequest = z.infer<typeof openSessionRequest>

export const openSessionResponse = z.strictObject({
  session_id: uuid,
  session_token: z.string(),
  heartbeat_seconds: z.number().positive(),
  lease_seconds: z.number().positive(),
  /** An `acquire` call is answered, empty if need be, after this long. */
  acquire_wait_seconds: z.number().positive(),
})
export type OpenSessionResponse = z.infer<typeof openSessionResponse>

export const processorHealth = z.strictObject({
  operation: z.enum(operations),
  healthy: z.boolean(),
  /** One sentence for operators when unhealthy. */
  reason: text().max(500).nullable(),
})
export type ProcessorHealth = z.infer<typeof processorHealth>
export const sessionHeartbeatRequest = z.strictObject({
  processors: z.array(processorHealth).max(32),
  /** Long poll: the answer comes when there is something to tell, at the latest after this long. Absent: at once. */
  wait_seconds: z.number().min(0).max(60).optional(),
})
export type SessionHeartbeatRequest = z.infer<typeof sessionHeartbeatRequest>
export const sessionHeartbeatResponse = z.strictObject({
  draining: z.boolean(),
  /** Claims of this session whose jobs were asked to cancel. */
  cancelled_claims: z.array(uuid),
})
export type SessionHeartbeatResponse = z.infer<typeof sessionHeartbeatResponse>

export const drainRequest = z.strictObject({})
export const drainResponse = z.strictObject({ draining: z.literal(true) })

export const acquireRequest = z.strictObject({
  processor: z.enum(operations),
  /** Free local slots right now. */
  permits: z.int().min(1).max(256),
  /** Seconds for which this offer stands; also bounds the long poll. */
  expires_in: z.number().positive().max(60),
})
export type AcquireRequest = z.infer<typeof acquireRequest>

export const claim = z.strictObject({
  claim_id: uuid,
  job_id: uuid,
  /** 1-based. */
  attempt: z.int().min(1),
  operation: z.enum(operations),
  options: z.record(z.string(), z.json()),
  input: z.strictObject({
    /** Path below Core's address for one GET; minted anew on replay. */
    ticket: z.string(),
    byte_length: byteCount,
    /** Of the archive's bytes. */
    sha256,
    /** Of the canonical manifest and all content: what the job means, whatever the archive's framing. */
    input_digest: sha256,
  }),
  limits,
  lease_seconds: z.number().positive(),
})
export type Claim = z.infer<typeof claim>
export const acquireResponse = z.strictObject({ claims: z.array(claim) })
export type AcquireResponse = z.infer<typeof acquireResponse>

export const claimHeartbeatRequest = z.strictObject({})
export const claimHeartbeatResponse = z.strictObject({
  lease_seconds: z.number().positive(),
  cancel_requested: z.boolean(),
})
export type ClaimHeartbeatResponse = z.infer<typeof claimHeartbeatResponse>

export const phaseRequest = z.strictObject({ phase: z.enum(workerPhases) })
export type PhaseRequest = z.infer<typeof phaseRequest>
export const phaseResponse = z.strictObject({ cancel_requested: z.boolean() })

export const stagingRequest = z.strictObject({
  role: z.enum(artifactRoles),
  media_type: z
    .string()
    .regex(/^[a-z0-9.+-]+\/[a-z0-9.+-]+$/)
    .max(100),
  byte_length: byteCount,
  sha256,
})
export type StagingRequest = z.infer<typeof stagingRequest>
export const stagingResponse = z.strictObject({
  /** Path below Core's address for one PUT of exactly the declared bytes. */
  ticket: z.string(),
})
export type StagingResponse = z.infer<typeof stagingResponse>

/** Which processor contract made the result, and what it found. */
export const completeRequest = z.strictObject({
  /** Roles already uploaded that make up the result. */
  roles: z.array(z.enum(artifactRoles)).min(1).max(16),
  diagnostics: z.array(diagnostic).max(500),
})
export type CompleteRequest = z.infer<typeof completeRequest>
export const completeResponse = z.strictObject({ state: z.literal('finalizing') })

export const failRequest = z.strictObject({
  failure_class: z.enum(failureClasses),
  /** One sentence for people. */
  message: text().min(1).max(2000),
  /** Set with `resource_limit`. */
  limit: z.strictObject({ name: z.enum(limitNames), value: z.number() }).nullable(),
  diagnostics: z.array(diagnostic).max(500),
  /** Roles already uploaded that explain the failure, such as `log`. */
  roles: z.array(z.enum(artifactRoles)).max(16),
})
export type FailRequest = z.infer<typeof failRequest>
export const failResponse = z.strictObject({
  /** What Core decided: the job waits for another attempt, or ended. */
  state: z.enum(['queued', 'failed', 'cancelled']),
})

export const releaseRequest = z.strictObject({ reason: text().max(500) })
export const releaseResponse = z.strictObject({ state: z.enum(['queued', 'failed', 'cancelled']) })

export const transferResponse = z.strictObject({ sha256, byte_length: byteCount })

/** RFC 9457 problem document; every refusal of the protocol has this body. */
export const problem = z.strictObject({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: z.enum(problemCodes),
})
export type Problem = z.infer<typeof problem>
