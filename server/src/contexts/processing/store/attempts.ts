import { operations } from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'
import type { Failure } from '../domain/failure.ts'
import * as jobs from './jobs.ts'

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

/** The attempt while its claim holds for this session; without a lock. */
export const findCurrent = (
  reader: Reader,
  claimId: string,
  sessionId: string,
  leaseSeconds: number,
): Promise<Attempt | null> =>
  reader.maybeOne(sql.type(attemptRow)`
    SELECT ${columns} FROM processing.attempt
    WHERE claim_id = ${claimId}
      AND session_id = ${sessionId}
      AND ended_at IS NULL
      AND processing.lease_holds(lease_expires_at, ${leaseSeconds})`)

export interface Held {
  readonly job: jobs.Job
  readonly attempt: Attempt
}

/** Holds a claim's job and then its attempt, and compares when both are held. @returns both, or null for a lost claim */
export async function hold(
  transaction: Transaction,
  claimId: string,
  sessionId: string,
  leaseSeconds: number,
): Promise<Held | null> {
  // Of the attempt only what never changes: the statement may see it as it was before it was held.
  const held = await transaction.maybeOne(sql.type(jobs.jobRow.extend({ number: z.int(), contract: z.string() }))`
    SELECT attempt.number, attempt.contract, ${jobs.columns}
    FROM
      processing.hold_claimed_job(${claimId}, ${sessionId}, ${leaseSeconds}) AS job,
      processing.attempt
    WHERE attempt.claim_id = ${claimId}`)
  if (!held) return null
  const { number, contract, ...job } = held
  return { job, attempt: { claimId, jobId: job.id, number, operation: job.operation, sessionId, contract } }
}

const sharedJob = z.object({ jobId: z.uuid().nullable() })

/** Keeps a claim from ending until the transaction does. @returns its job, or null for a lost claim */
export const share = (
  transaction: Transaction,
  claimId: string,
  sessionId: string,
  leaseSeconds: number,
): Promise<string | null> =>
  transaction.oneFirst(sql.type(sharedJob)`
    SELECT processing.share_claim(${claimId}, ${sessionId}, ${leaseSeconds}) AS "jobId"`)

export const renew = async (
  reader: Reader,
  claimId: string,
  sessionId: string,
  leaseSeconds: number,
): Promise<{ cancelRequested: boolean } | null> =>
  reader.maybeOne(sql.type(z.object({ cancelRequested: z.boolean() }))`
    UPDATE processing.attempt
    SET lease_expires_at = clock_timestamp() + make_interval(secs => ${leaseSeconds})
    FROM processing.job
    WHERE attempt.claim_id = ${claimId}
      AND attempt.session_id = ${sessionId}
      AND attempt.ended_at IS NULL
      AND processing.lease_holds(attempt.lease_expires_at, ${leaseSeconds})
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

/** Open attempts whose lease is over, at most `most`. */
export const listLeaseExpired = (reader: Reader, leaseSeconds: number, most: number): Promise<readonly Attempt[]> =>
  reader.any(sql.type(attemptRow)`
    SELECT ${columns} FROM processing.attempt
    WHERE ended_at IS NULL AND NOT processing.lease_holds(lease_expires_at, ${leaseSeconds})
    LIMIT ${most}`)

/** Holds an attempt; call it after its job's row is held. @returns whether it is open */
export const lockOpen = (transaction: Transaction, claimId: string): Promise<Attempt | null> =>
  transaction.maybeOne(sql.type(attemptRow)`
    SELECT ${columns} FROM processing.attempt WHERE claim_id = ${claimId} AND ended_at IS NULL FOR NO KEY UPDATE`)

/** Whether the lease is over; asked when the attempt is held, for it may have been renewed meanwhile. */
export const isLeaseOver = (transaction: Transaction, claimId: string, leaseSeconds: number): Promise<boolean> =>
  transaction.exists(sql.unsafe`
    SELECT 1 FROM processing.attempt
    WHERE claim_id = ${claimId} AND NOT processing.lease_holds(lease_expires_at, ${leaseSeconds})`)

/** The session that holds a job's open attempt, if any. */
export const findSession = (reader: Reader, jobId: string): Promise<string | null> =>
  reader.maybeOneFirst(sql.type(z.object({ sessionId: z.uuid() }))`
    SELECT session_id AS "sessionId" FROM processing.attempt WHERE job_id = ${jobId} AND ended_at IS NULL`)

/** How many attempts began within the last `seconds`: how fast the line moves. */
export const countStarted = (reader: Reader, seconds: number): Promise<number> =>
  reader.oneFirst(sql.type(z.object({ count: z.int() }))`
    SELECT count(*) AS count FROM processing.attempt WHERE started_at > now() - make_interval(secs => ${seconds})`)

/**
 * Ends the leases of a session that was replaced, beyond any amnesty; the reaper settles its attempts.
 *
 * @remarks the claims are of a process that said itself that it has them no more
 */
export const expireLeases = (transaction: Transaction, sessionId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`
    UPDATE processing.attempt SET lease_expires_at = '-infinity'
    WHERE session_id = ${sessionId} AND ended_at IS NULL`)
