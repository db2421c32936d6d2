import type { Operation } from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'
import { next } from '../domain/lifecycle.ts'
import * as jobs from './jobs.ts'

/** Puts a job in line that the caller holds and has just queued. */
export const enter = (transaction: Transaction, jobId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`SELECT processing.enter_queue(${jobId})`)

/** Takes a waiting job that the caller holds out of line; one that backs off is not in it. */
export const leave = (transaction: Transaction, jobId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`SELECT processing.leave_queue(${jobId})`)

export interface Claiming {
  readonly operation: Operation
  readonly sessionId: string
  /** As many jobs at most; each that is claimed takes the next of them. */
  readonly claimIds: readonly string[]
  readonly activePerRequester: number
  readonly activePerProject: number
  readonly leaseSeconds: number
}

/** Why there is no more to claim: nothing in line for anyone, others have what there is, or the session has no room. */
const found = z.enum(['nothing', 'busy', 'no_room'])
const claimedRow = z.union([jobs.jobRow.extend({ found }), z.object({ id: z.null(), found })])

/**
 * Claims the next jobs in line and opens their attempts, in one round trip; their rows are held.
 *
 * @returns the jobs, in the order of their claims, and why there are no more when there are fewer than claims
 */
export async function claim(
  transaction: Transaction,
  claiming: Claiming,
): Promise<{ jobs: readonly jobs.Job[]; found: z.infer<typeof found> }> {
  const rows = await transaction.many(sql.type(claimedRow)`
    SELECT claimed.reason AS found, ${jobs.columns}
    FROM
      processing.claim_jobs(
        ${claiming.operation}, ${claiming.sessionId}, ${sql.array([...claiming.claimIds], 'uuid')},
        ${claiming.activePerRequester}, ${claiming.activePerProject}, ${claiming.leaseSeconds}, ${next('queued', 'claimed')}
      ) AS claimed
      LEFT JOIN LATERAL unnest(claimed.jobs) AS job ON true`)
  return { jobs: rows.filter((row) => row.id !== null), found: (rows[0] as (typeof rows)[number]).found }
}

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
