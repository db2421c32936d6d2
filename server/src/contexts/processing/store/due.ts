import { type Operation, operations } from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql } from '../../../platform/database.ts'

const dueRow = z.object({
  leases: z.boolean(),
  waits: z.boolean(),
  preparations: z.boolean(),
  backoffs: z.boolean(),
  finalizations: z.boolean(),
  /** Whether anything is under way that may become due soon. */
  busy: z.boolean(),
  /** Operations with jobs in line, eligible or not. */
  waiting: z.array(z.enum(operations)),
})
export type Due = z.infer<typeof dueRow>

/** What the passes would find, in one statement over small indexes: an idle deployment costs one look, not one a reaper. */
export const look = (
  reader: Reader,
  { leaseSeconds, operations: offered }: { leaseSeconds: number; operations: readonly Operation[] },
): Promise<Due> =>
  reader.one(sql.type(dueRow)`
    SELECT
      EXISTS (
        SELECT FROM processing.attempt
        WHERE ended_at IS NULL AND NOT processing.lease_holds(lease_expires_at, ${leaseSeconds})
      ) AS leases,
      EXISTS (SELECT FROM processing.queue_entry WHERE expires_at < now()) AS waits,
      EXISTS (
        SELECT FROM processing.job
        WHERE preparer_expires_at IS NOT NULL AND finished_at IS NULL AND state = 'preparing'
          AND (preparer_expires_at < now() OR prepare_expires_at < now())
      ) AS preparations,
      EXISTS (SELECT FROM processing.job WHERE claimable_at <= now() AND state = 'queued') AS backoffs,
      EXISTS (SELECT FROM processing.job WHERE finalization_expires_at < now() AND state = 'finalizing') AS finalizations,
      EXISTS (SELECT FROM processing.attempt WHERE ended_at IS NULL)
        OR EXISTS (SELECT FROM processing.turn)
        OR EXISTS (SELECT FROM processing.job WHERE claimable_at IS NOT NULL AND state = 'queued')
        OR EXISTS (SELECT FROM processing.job WHERE finalization_expires_at IS NOT NULL)
        OR EXISTS (SELECT FROM processing.job WHERE preparer_expires_at IS NOT NULL AND finished_at IS NULL) AS busy,
      ARRAY (
        SELECT operation FROM unnest(${sql.array([...offered], 'text')}) AS operation
        WHERE EXISTS (SELECT FROM processing.turn WHERE turn.operation = operation.operation)
      ) AS waiting`)
