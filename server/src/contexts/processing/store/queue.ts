import type { Operation } from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

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
 * @returns the job, or whether the session has no slot, or one was passed over only because another transaction had it
 */
export const takeNext = (
  transaction: Transaction,
  taking: Taking,
): Promise<{ jobId: string | null; busy: boolean; sessionFull: boolean }> =>
  transaction.one(sql.type(z.object({ jobId: z.uuid().nullable(), busy: z.boolean(), sessionFull: z.boolean() }))`
    SELECT job_id AS "jobId", busy, session_full AS "sessionFull"
    FROM processing.take_next(
      ${taking.operation}, ${taking.sessionId}, ${taking.claimId}, ${taking.ceiling},
      ${taking.activePerRequester}, ${taking.activePerProject}
    )`)

/** Requesters between two ids whose place in line is not what their waiting jobs say: a defect, if there ever is one. */
export const listUnsound = (
  reader: Reader,
  operation: Operation,
  { first, last }: { first: string; last: string },
): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(z.object({ requesterId: z.uuid() }))`
    SELECT requester_id AS "requesterId" FROM processing.unsound_turns(${operation}, ${first}, ${last})`)

/** Builds a requester's place in line anew. */
export const repair = (reader: Reader, operation: Operation, requesterId: string): Promise<unknown> =>
  reader.query(sql.unsafe`SELECT processing.repair_turn(${operation}, ${requesterId})`)

/** Seconds until the first waiting job gives up, or null if none waits. */
export const secondsToNextExpiry = (reader: Reader): Promise<number | null> =>
  reader.oneFirst(sql.type(z.object({ seconds: z.number().nullable() }))`
    SELECT extract(epoch FROM min(expires_at) - now())::float8 AS seconds FROM processing.queue_entry`)
