import {
  type Diagnostic,
  diagnostic,
  failureClasses,
  limitNames,
  type Operation,
  operations,
  type Phase,
  phases,
} from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'
import type { Failure } from '../domain/failure.ts'
import { isTerminal, type JobEvent, type JobState, jobStates, next } from '../domain/lifecycle.ts'

const failure = z.object({
  class: z.enum(failureClasses),
  message: z.string(),
  limit: z.object({ name: z.enum(limitNames), value: z.number() }).nullable(),
})

export const jobRow = z.object({
  id: z.uuid(),
  operation: z.enum(operations),
  requesterId: z.uuid(),
  projectId: z.uuid().nullable(),
  options: z.record(z.string(), z.json()),
  state: z.enum(jobStates),
  phase: z.enum(phases).nullable(),
  version: z.int(),
  inputSha256: z.string().nullable(),
  inputByteLength: z.int().nullable(),
  inputDigest: z.string().nullable(),
  attemptCount: z.int(),
  attemptLimit: z.int(),
  createdAt: z.date(),
  createdMicros: z.int(),
  queuedAt: z.date().nullable(),
  startedAt: z.date().nullable(),
  finishedAt: z.date().nullable(),
  cancelRequested: z.boolean(),
  failure: failure.nullable(),
  diagnostics: z.array(diagnostic),
  processorContract: z.string().nullable(),
})
export type Job = z.infer<typeof jobRow>

/** Of a row called `job`. */
export const columns = sql.fragment`
  job.id,
  job.operation,
  job.requester_id AS "requesterId",
  job.project_id AS "projectId",
  job.options,
  job.state,
  job.phase,
  job.version,
  job.input_sha256 AS "inputSha256",
  job.input_byte_length AS "inputByteLength",
  job.input_digest AS "inputDigest",
  job.attempt_count AS "attemptCount",
  job.attempt_limit AS "attemptLimit",
  job.created_at AS "createdAt",
  (extract(epoch FROM job.created_at) * 1000000)::bigint AS "createdMicros",
  job.queued_at AS "queuedAt",
  job.started_at AS "startedAt",
  job.finished_at AS "finishedAt",
  job.cancel_requested_at IS NOT NULL AS "cancelRequested",
  job.failure,
  job.diagnostics,
  job.processor_contract AS "processorContract"`

export const findMany = (reader: Reader, ids: readonly string[]): Promise<readonly Job[]> =>
  reader.any(sql.type(jobRow)`SELECT ${columns} FROM processing.job WHERE id = ANY (${sql.array([...ids], 'uuid')})`)

export const find = (reader: Reader, id: string): Promise<Job | null> =>
  reader.maybeOne(sql.type(jobRow)`SELECT ${columns} FROM processing.job WHERE id = ${id}`)

export const lock = (transaction: Transaction, id: string): Promise<Job | null> =>
  transaction.maybeOne(sql.type(jobRow)`SELECT ${columns} FROM processing.job WHERE id = ${id} FOR NO KEY UPDATE`)

export const insertPreparing = (
  transaction: Transaction,
  job: {
    id: string
    operation: Operation
    requesterId: string
    projectId: string
    options: Record<string, unknown>
    attemptLimit: number
    prepareSeconds: number
    preparerSeconds: number
  },
): Promise<Job> =>
  transaction.one(sql.type(jobRow)`
    INSERT INTO processing.job
      (id, operation, requester_id, project_id, options, state, phase, attempt_limit, prepare_expires_at, preparer_expires_at)
    VALUES (
      ${job.id}, ${job.operation}, ${job.requesterId}, ${job.projectId}, ${sql.jsonb(job.options as never)},
      'preparing', 'capturing_input', ${job.attemptLimit},
      now() + make_interval(secs => ${job.prepareSeconds}), now() + make_interval(secs => ${job.preparerSeconds})
    )
    RETURNING ${columns}`)

/** What a move may set beside the state; a column that is absent keeps its value. */
export interface Changes {
  /** Required unless the new state is terminal. */
  readonly phase?: Phase
  readonly input?: { readonly sha256: string; readonly byteLength: number; readonly digest: string }
  readonly queueSeconds?: number
  /** Seconds until the job may be claimed again; with 0 it stands in line at once. */
  readonly delaySeconds?: number
  /** The attempt that ended does not count against the limit. */
  readonly extraAttempt?: true
  readonly failure?: Failure
  readonly diagnostics?: readonly Diagnostic[]
  readonly processorContract?: string
  /** Who finalizes, from the same commit on. */
  readonly finalization?: { readonly token: string; readonly seconds: number }
}

/**
 * The writer of a job's state, but for claims, which are made in one round trip (store/queue.ts). The caller holds the row.
 *
 * @throws {Error} for a move that the lifecycle does not have: a defect of the caller
 */
export async function move(
  transaction: Transaction,
  job: Pick<Job, 'id' | 'state'>,
  event: JobEvent,
  changes: Changes = {},
): Promise<Job> {
  const state = next(job.state, event)
  if (!state) throw new Error(`a job that is ${job.state} cannot be ${event}`)
  const terminal = isTerminal(state)
  const assignments = [
    sql.fragment`state = ${state}`,
    sql.fragment`version = version + 1`,
    sql.fragment`phase = ${terminal ? null : (changes.phase ?? null)}`,
    ...(changes.finalization
      ? [
          sql.fragment`finalization_token = ${changes.finalization.token}`,
          sql.fragment`finalization_expires_at = now() + make_interval(secs => ${changes.finalization.seconds})`,
        ]
      : [sql.fragment`finalization_token = NULL, finalization_expires_at = NULL`]),
    ...(job.state === 'preparing' ? [sql.fragment`preparer_expires_at = NULL`] : []),
    ...(terminal ? [sql.fragment`finished_at = now()`] : []),
    ...(terminal && changes.delaySeconds === undefined ? [sql.fragment`claimable_at = NULL`] : []),
    ...(changes.input
      ? [
          sql.fragment`input_sha256 = ${changes.input.sha256}, input_byte_length = ${changes.input.byteLength}, input_digest = ${changes.input.digest}`,
        ]
      : []),
    ...(changes.queueSeconds === undefined
      ? []
      : [sql.fragment`queued_at = now(), queue_expires_at = now() + make_interval(secs => ${changes.queueSeconds})`]),
    ...(changes.delaySeconds === undefined
      ? []
      : [
          sql.fragment`claimable_at = ${changes.delaySeconds > 0 ? sql.fragment`now() + make_interval(secs => ${changes.delaySeconds})` : sql.fragment`NULL`}`,
        ]),
    ...(changes.extraAttempt ? [sql.fragment`attempt_limit = attempt_limit + 1`] : []),
    ...(changes.failure ? [sql.fragment`failure = ${sql.jsonb(changes.failure as never)}`] : []),
    ...(changes.diagnostics ? [sql.fragment`diagnostics = ${sql.jsonb(changes.diagnostics as never)}`] : []),
    ...(changes.processorContract ? [sql.fragment`processor_contract = ${changes.processorContract}`] : []),
  ]
  return transaction.one(sql.type(jobRow)`
    UPDATE processing.job
    SET ${sql.join(assignments, sql.fragment`, `)}
    WHERE id = ${job.id} AND state = ${job.state}
    RETURNING ${columns}`)
}

export const updatePhase = (transaction: Transaction, id: string, phase: Phase): Promise<unknown> =>
  transaction.query(sql.unsafe`
    UPDATE processing.job SET phase = ${phase}, version = version + 1 WHERE id = ${id} AND phase IS DISTINCT FROM ${phase}`)

export const requestCancel = (transaction: Transaction, id: string): Promise<Job> =>
  transaction.one(sql.type(jobRow)`
    UPDATE processing.job
    SET cancel_requested_at = coalesce(cancel_requested_at, now()), version = version + 1
    WHERE id = ${id}
    RETURNING ${columns}`)

/** Serializes admissions, so that the limit on waiting jobs is exact. */
export const lockAdmission = (transaction: Transaction): Promise<unknown> =>
  transaction.query(sql.unsafe`SELECT pg_advisory_xact_lock(hashtext('processing.admission'))`)

/** Jobs that wait, in line, in preparation or backing off; the line is counted by requester, not by job. */
export const countWaiting = (reader: Reader): Promise<number> =>
  reader.oneFirst(sql.type(z.object({ count: z.int() }))`
    SELECT
      (SELECT coalesce(sum(depth), 0)::bigint FROM processing.turn)
      + (SELECT count(*) FROM processing.job WHERE preparer_expires_at IS NOT NULL AND finished_at IS NULL)
      + (SELECT count(*) FROM processing.job WHERE claimable_at IS NOT NULL AND state = 'queued') AS count`)

export interface WaitingFacts {
  readonly id: string
  readonly backingOff: boolean
  readonly requesterActive: number
  readonly projectActive: number
}

export const findWaitingFacts = (reader: Reader, ids: readonly string[]): Promise<readonly WaitingFacts[]> =>
  reader.any(sql.type(
    z.object({ id: z.uuid(), backingOff: z.boolean(), requesterActive: z.int(), projectActive: z.int() }),
  )`
    SELECT
      id,
      coalesce(claimable_at > now(), false) AS "backingOff",
      (SELECT count(*) FROM processing.claim_slot WHERE claim_slot.requester_id = job.requester_id) AS "requesterActive",
      (SELECT count(*) FROM processing.claim_slot WHERE claim_slot.project_id = job.project_id) AS "projectActive"
    FROM processing.job
    WHERE id = ANY (${sql.array([...ids], 'uuid')}) AND state = 'queued'`)

/** Takes the finalization of a job, unless another holds it. */
export const takeFinalization = (reader: Reader, id: string, token: string, seconds: number): Promise<Job | null> =>
  reader.maybeOne(sql.type(jobRow)`
    UPDATE processing.job
    SET finalization_token = ${token}, finalization_expires_at = now() + make_interval(secs => ${seconds})
    WHERE id = ${id}
      AND state = 'finalizing'
      AND finalization_expires_at < now()
    RETURNING ${columns}`)

/** The job if this token still holds its finalization; its row is held. */
export const lockFinalization = (transaction: Transaction, id: string, token: string): Promise<Job | null> =>
  transaction.maybeOne(sql.type(jobRow)`
    SELECT ${columns} FROM processing.job
    WHERE id = ${id} AND state = 'finalizing' AND finalization_token = ${token}
    FOR NO KEY UPDATE`)

/** Takes over the preparation of a job whose replica fell silent. */
export const takePreparation = (reader: Reader, id: string, seconds: number): Promise<Job | null> =>
  reader.maybeOne(sql.type(jobRow)`
    UPDATE processing.job
    SET preparer_expires_at = now() + make_interval(secs => ${seconds})
    WHERE id = ${id} AND state = 'preparing' AND preparer_expires_at < now() AND prepare_expires_at > now()
    RETURNING ${columns}`)

const idRow = z.object({ id: z.uuid() })

/** Lists of what is due; `most` bounds a pass, and the next pass goes on. */
export const listSilentPreparations = (reader: Reader, most: number): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(idRow)`
    SELECT id FROM processing.job
    WHERE preparer_expires_at < now() AND finished_at IS NULL AND state = 'preparing' AND prepare_expires_at > now()
    LIMIT ${most}`)

export const listAbandonedPreparations = (reader: Reader, most: number): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(idRow)`
    SELECT id FROM processing.job
    WHERE preparer_expires_at IS NOT NULL AND finished_at IS NULL AND state = 'preparing' AND prepare_expires_at < now()
    LIMIT ${most}`)

export const listWaitExpired = (reader: Reader, most: number): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(z.object({ jobId: z.uuid() }))`
    SELECT job_id AS "jobId" FROM processing.queue_entry WHERE expires_at < now() LIMIT ${most}`)

/** Jobs whose back-off is over. */
export const listRested = (reader: Reader, most: number): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(idRow)`
    SELECT id FROM processing.job
    WHERE claimable_at IS NOT NULL AND claimable_at <= now() AND state = 'queued'
    LIMIT ${most}`)

/** Ends the back-off of a job that is still waiting and whose time has come. The caller holds the row. */
export const endBackoff = async (transaction: Transaction, id: string): Promise<boolean> => {
  const { rowCount } = await transaction.query(sql.unsafe`
    UPDATE processing.job SET claimable_at = NULL
    WHERE id = ${id} AND state = 'queued' AND claimable_at IS NOT NULL AND claimable_at <= now()`)
  return rowCount === 1
}

export const listUnfinalized = (reader: Reader, most: number): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(idRow)`
    SELECT id FROM processing.job WHERE finalization_expires_at < now() AND state = 'finalizing' LIMIT ${most}`)

/** Jobs that ended more than `seconds` ago. */
export const listPastRetention = (reader: Reader, seconds: number, most: number): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(idRow)`
    SELECT id FROM processing.job WHERE finished_at < now() - make_interval(secs => ${seconds})
    ORDER BY finished_at LIMIT ${most}`)

/** Forgets an ended job with its attempts, artifacts and history. */
export const remove = (transaction: Transaction, id: string): Promise<unknown> =>
  transaction.query(sql.unsafe`DELETE FROM processing.job WHERE id = ${id} AND finished_at IS NOT NULL`)

/** Rechecks under the row's lock what a list said without it. */
export const isPastWait = (transaction: Transaction, id: string): Promise<boolean> =>
  transaction.exists(sql.unsafe`
    SELECT 1 FROM processing.job
    WHERE id = ${id} AND ((state = 'queued' AND queue_expires_at < now()) OR (state = 'preparing' AND prepare_expires_at < now()))`)

export interface JobFilter {
  readonly requesterId: string | null
  readonly projectId: string | null
  readonly states: readonly JobState[] | null
}

export interface JobPage {
  readonly limit: number
  readonly beyond: { readonly micros: number; readonly id: string } | null
  readonly oldestFirst: boolean
}

export const page = (
  reader: Reader,
  filter: JobFilter,
  { limit, beyond, oldestFirst }: JobPage,
): Promise<readonly Job[]> => {
  const direction = oldestFirst ? sql.fragment`ASC` : sql.fragment`DESC`
  const operator = oldestFirst ? sql.fragment`>` : sql.fragment`<`
  const conditions = [
    sql.fragment`TRUE`,
    ...(filter.requesterId ? [sql.fragment`requester_id = ${filter.requesterId}`] : []),
    ...(filter.projectId ? [sql.fragment`project_id = ${filter.projectId}`] : []),
    ...(filter.states ? [sql.fragment`state = ANY (${sql.array([...filter.states], 'text')})`] : []),
    ...(beyond
      ? [
          sql.fragment`(created_at, id) ${operator} (to_timestamp(0) + ${beyond.micros} * interval '1 microsecond', ${beyond.id}::uuid)`,
        ]
      : []),
  ]
  return reader.any(sql.type(jobRow)`
    SELECT ${columns} FROM processing.job
    WHERE ${sql.join(conditions, sql.fragment` AND `)}
    ORDER BY created_at ${direction}, id ${direction}
    LIMIT ${limit}`)
}

/** Unfinished jobs by operation and state, counted without reading the line: a requester's turn knows its length. */
export const measureStates = (reader: Reader) =>
  reader.any(sql.type(
    z.object({ operation: z.string(), state: z.enum(jobStates), count: z.int(), oldestSeconds: z.number() }),
  )`
    WITH moving AS (
      SELECT operation, state, created_at FROM processing.job
      WHERE preparer_expires_at IS NOT NULL AND finished_at IS NULL AND state = 'preparing'
      UNION ALL
      SELECT operation, state, created_at FROM processing.job WHERE claimable_at IS NOT NULL AND state = 'queued'
      UNION ALL
      SELECT operation, state, created_at FROM processing.job
      WHERE finalization_expires_at IS NOT NULL AND state = 'finalizing'
      UNION ALL
      SELECT attempt.operation, 'running', job.created_at
      FROM processing.attempt JOIN processing.job ON job.id = attempt.job_id WHERE attempt.ended_at IS NULL
    ), counted AS (
      SELECT operation, state, count(*) AS count, min(created_at) AS oldest FROM moving GROUP BY 1, 2
      UNION ALL
      SELECT operation, 'queued', sum(depth)::bigint,
        (SELECT created_at FROM processing.job WHERE seq = min(head_seq))
      FROM processing.turn GROUP BY operation
    )
    SELECT operation, state, sum(count)::bigint AS count,
      coalesce(extract(epoch FROM now() - min(oldest)), 0)::float8 AS "oldestSeconds"
    FROM counted GROUP BY operation, state`)
