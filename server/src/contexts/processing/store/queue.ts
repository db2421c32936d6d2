import type { Operation } from '@platen/worker/protocol'
import { z } from 'zod'
import { sql, type Transaction } from '../../../platform/database.ts'

/** Puts a job in line that the caller holds and has just queued. */
export const enter = (transaction: Transaction, jobId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`SELECT processing.enter_queue(${jobId})`)

/** Takes a waiting job that the caller holds out of line; one that backs off is not in it. */
export const leave = (transaction: Transaction, jobId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`SELECT processing.leave_queue(${jobId})`)

export interface Taking {
  readonly operation: Operation
  readonly sessionId: string
  readonly claimId: string
  /** Slots of the session's processor. */
  readonly ceiling: number
  readonly activePerRequester: number
  readonly activePerProject: number
}

/**
 * Takes the next job in line for a claim; its row is held and its slots are taken.
 *
 * @returns the job, or whether one was passed over only because another transaction had it
 */
export const takeNext = (transaction: Transaction, taking: Taking): Promise<{ jobId: string | null; busy: boolean }> =>
  transaction.one(sql.type(z.object({ jobId: z.uuid().nullable(), busy: z.boolean() }))`
    SELECT job_id AS "jobId", busy
    FROM processing.take_next(
      ${taking.operation}, ${taking.sessionId}, ${taking.claimId}, ${taking.ceiling},
      ${taking.activePerRequester}, ${taking.activePerProject}
    )`)
