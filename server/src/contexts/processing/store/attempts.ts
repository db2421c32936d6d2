import { type Operation, operations } from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'
import type { Failure } from '../domain/failure.ts'

const attemptRow = z.object({
  claimId: z.uuid(),
  jobId: z.uuid(),
  number: z.int(),
  operation: z.enum(operations),
  sessionId: z.uuid(),
  contract: z.string(),
})
export type Attempt = z.infer<typeof attemptRow>

const columns = sql.fragment`
  claim_id AS "claimId",
  job_id AS "jobId",
  number,
  operation,
  session_id AS "sessionId",
  contract`

export type Outcome = 'delivered' | 'failed' | 'released' | 'lease_expired' | 'cancelled'

export const insert = (
  transaction: Transaction,
  attempt: {
    claimId: string
    jobId: string
    number: number
    operation: Operation
    requesterId: string
    projectId: string | null
    sessionId: string
    contract: string
    leaseSeconds: number
  },
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO processing.attempt
      (claim_id, job_id, number, operation, requester_id, project_id, session_id, contract, lease_expires_at)
    VALUES (
      ${attempt.claimId}, ${attempt.jobId}, ${attempt.number}, ${attempt.operation}, ${attempt.requesterId},
      ${attempt.projectId}, ${attempt.sessionId}, ${attempt.contract}, now() + make_interval(secs => ${attempt.leaseSeconds})
    )`)

/** The attempt while its claim holds for this session; without a lock. */
export const findCurrent = (reader: Reader, claimId: string, sessionId: string): Promise<Attempt | null> =>
  reader.maybeOne(sql.type(attemptRow)`
    SELECT ${columns} FROM processing.attempt
    WHERE claim_id = ${claimId} AND session_id = ${sessionId} AND ended_at IS NULL AND lease_expires_at > now()`)

/** Holds the claim; call it after the job's row is held. */
export const lockCurrent = (transaction: Transaction, claimId: string, sessionId: string): Promise<Attempt | null> =>
  transaction.maybeOne(sql.type(attemptRow)`
    SELECT ${columns} FROM processing.attempt
    WHERE claim_id = ${claimId} AND session_id = ${sessionId} AND ended_at IS NULL AND lease_expires_at > now()
    FOR NO KEY UPDATE`)

/** Keeps the claim from ending until the transaction does. */
export const holdCurrent = (transaction: Transaction, claimId: string, sessionId: string): Promise<Attempt | null> =>
  transaction.maybeOne(sql.type(attemptRow)`
    SELECT ${columns} FROM processing.attempt
    WHERE claim_id = ${claimId} AND session_id = ${sessionId} AND ended_at IS NULL AND lease_expires_at > now()
    FOR SHARE`)

export const renew = async (
  reader: Reader,
  claimId: string,
  sessionId: string,
  leaseSeconds: number,
): Promise<{ cancelRequested: boolean } | null> =>
  reader.maybeOne(sql.type(z.object({ cancelRequested: z.boolean() }))`
    UPDATE processing.attempt
    SET lease_expires_at = now() + make_interval(secs => ${leaseSeconds})
    FROM processing.job
    WHERE attempt.claim_id = ${claimId}
      AND attempt.session_id = ${sessionId}
      AND attempt.ended_at IS NULL
      AND attempt.lease_expires_at > now()
      AND job.id = attempt.job_id
    RETURNING job.cancel_requested_at IS NOT NULL AS "cancelRequested"`)

export const end = (
  transaction: Transaction,
  claimId: string,
  outcome: Outcome,
  failure: Failure | null = null,
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    WITH freed AS (DELETE FROM processing.claim_slot WHERE claim_id = ${claimId})
    UPDATE processing.attempt
    SET ended_at = now(), outcome = ${outcome}, failure = ${failure === null ? null : sql.jsonb(failure as never)}
    WHERE claim_id = ${claimId} AND ended_at IS NULL`)

export const listCancelled = (reader: Reader, sessionId: string): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(z.object({ claimId: z.uuid() }))`
    SELECT attempt.claim_id AS "claimId"
    FROM processing.attempt
    JOIN processing.job ON job.id = attempt.job_id
    WHERE attempt.session_id = ${sessionId} AND attempt.ended_at IS NULL AND job.cancel_requested_at IS NOT NULL`)

export const listLeaseExpired = (reader: Reader): Promise<readonly Attempt[]> =>
  reader.any(sql.type(attemptRow)`
    SELECT ${columns} FROM processing.attempt WHERE ended_at IS NULL AND lease_expires_at < now() LIMIT 100`)

export const lockLeaseExpired = (transaction: Transaction, claimId: string): Promise<Attempt | null> =>
  transaction.maybeOne(sql.type(attemptRow)`
    SELECT ${columns} FROM processing.attempt
    WHERE claim_id = ${claimId} AND ended_at IS NULL AND lease_expires_at < now()
    FOR NO KEY UPDATE`)

/** Ends the leases of a session that was replaced; the reaper settles its attempts. */
export const expireLeases = (transaction: Transaction, sessionId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`
    UPDATE processing.attempt SET lease_expires_at = now() - interval '1 microsecond'
    WHERE session_id = ${sessionId} AND ended_at IS NULL AND lease_expires_at > now()`)
