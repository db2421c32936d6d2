import { type Operation, operations, type ProcessorRegistration } from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

const sessionRow = z.object({
  id: z.uuid(),
  workerName: z.string(),
  draining: z.boolean(),
  /** Claims whose jobs were asked to cancel. */
  cancelledClaims: z.array(z.uuid()),
  openClaims: z.int(),
})
export type Session = z.infer<typeof sessionRow>

const columns = sql.fragment`
  session.id,
  session.worker_name AS "workerName",
  session.draining_since IS NOT NULL AS draining,
  ARRAY (
    SELECT attempt.claim_id FROM processing.attempt JOIN processing.job ON job.id = attempt.job_id
    WHERE attempt.session_id = session.id AND attempt.ended_at IS NULL AND job.cancel_requested_at IS NOT NULL
  ) AS "cancelledClaims",
  (SELECT count(*) FROM processing.attempt WHERE attempt.session_id = session.id AND attempt.ended_at IS NULL) AS "openClaims"`

/** Those of `ids` that are open. */
export const findOpen = (reader: Reader, ids: readonly string[]): Promise<readonly Session[]> =>
  reader.any(sql.type(sessionRow)`
    SELECT ${columns} FROM processing.session WHERE id = ANY (${sql.array([...ids], 'uuid')}) AND ended_at IS NULL`)

/** Writes that these were heard of, in one statement for all. @returns those of them that are open */
export const hear = (reader: Reader, ids: readonly string[]): Promise<readonly Session[]> =>
  reader.any(sql.type(sessionRow)`
    WITH heard AS (
      UPDATE processing.session SET heard_at = now()
      WHERE id = ANY (${sql.array([...ids], 'uuid')}) AND ended_at IS NULL
      RETURNING id
    )
    SELECT ${columns} FROM processing.session JOIN heard USING (id)`)

/**
 * Holds all processors of a session. The claim path starts with one of these rows: who holds them knows that no claim
 * is under way, and that one which comes later sees what was done.
 */
export const lockProcessors = (transaction: Transaction, sessionId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`
    SELECT 1 FROM processing.session_processor WHERE session_id = ${sessionId} ORDER BY operation FOR NO KEY UPDATE`)

/** One registration of a worker process at a time, so that a new session finds the one that it replaces. */
export const lockInstance = (transaction: Transaction, workerName: string, instanceId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`
    SELECT pg_advisory_xact_lock(hashtextextended(${`processing.instance:${workerName}:${instanceId}`}, 0))`)

/** Open sessions of one worker process. */
export const listOfInstance = (reader: Reader, workerName: string, instanceId: string): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(z.object({ id: z.uuid() }))`
    SELECT id FROM processing.session
    WHERE worker_name = ${workerName} AND instance_id = ${instanceId} AND ended_at IS NULL`)

export const end = (transaction: Transaction, id: string): Promise<unknown> =>
  transaction.query(sql.unsafe`UPDATE processing.session SET ended_at = now() WHERE id = ${id} AND ended_at IS NULL`)

export const insert = (
  transaction: Transaction,
  session: { id: string; workerName: string; instanceId: string; executor: string },
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO processing.session (id, worker_name, instance_id, executor)
    VALUES (${session.id}, ${session.workerName}, ${session.instanceId}, ${session.executor})`)

export const insertProcessor = (
  transaction: Transaction,
  sessionId: string,
  processor: ProcessorRegistration,
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO processing.session_processor (session_id, operation, name, version, contract, slots, facts)
    VALUES (
      ${sessionId}, ${processor.operation}, ${processor.name}, ${processor.version}, ${processor.contract},
      ${processor.slots}, ${sql.jsonb(processor.facts as never)}
    )`)

/** @returns whether anything changed */
export const updateHealth = async (
  reader: Reader,
  sessionId: string,
  health: { operation: Operation; healthy: boolean; reason: string | null },
): Promise<boolean> => {
  const { rowCount } = await reader.query(sql.unsafe`
    UPDATE processing.session_processor
    SET healthy = ${health.healthy}, unhealthy_reason = ${health.reason}
    WHERE session_id = ${sessionId} AND operation = ${health.operation} AND healthy <> ${health.healthy}`)
  return rowCount > 0
}

export const drain = (reader: Reader, id: string): Promise<unknown> =>
  reader.query(sql.unsafe`
    UPDATE processing.session SET draining_since = coalesce(draining_since, now()) WHERE id = ${id} AND ended_at IS NULL`)

const processorRow = z.object({
  operation: z.enum(operations),
  name: z.string(),
  version: z.string(),
  contract: z.string(),
  facts: z.record(z.string(), z.json()),
})
export type LiveProcessor = z.infer<typeof processorRow>

/** What sessions that were heard of within `seconds` offer, one row a contract. */
export const listLiveProcessors = (reader: Reader, seconds: number): Promise<readonly LiveProcessor[]> =>
  reader.any(sql.type(processorRow)`
    SELECT DISTINCT ON (operation, contract) operation, name, version, contract, facts
    FROM processing.session_processor
    JOIN processing.session ON session.id = session_processor.session_id
    WHERE session.ended_at IS NULL
      AND session.draining_since IS NULL
      AND session.heard_at > now() - make_interval(secs => ${seconds})
      AND session_processor.healthy
    ORDER BY operation, contract, session.opened_at DESC`)

/** Operations that live sessions serve, and whether a slot of theirs is free. */
export const listServed = (
  reader: Reader,
  seconds: number,
): Promise<readonly { operation: Operation; free: boolean }[]> =>
  reader.any(sql.type(z.object({ operation: z.enum(operations), free: z.boolean() }))`
    SELECT
      session_processor.operation,
      bool_or(
        session_processor.slots > (
          SELECT count(*) FROM processing.claim_slot
          WHERE claim_slot.session_id = session.id AND claim_slot.operation = session_processor.operation
        )
      ) AS free
    FROM processing.session_processor
    JOIN processing.session ON session.id = session_processor.session_id
    WHERE session.ended_at IS NULL
      AND session.draining_since IS NULL
      AND session.heard_at > now() - make_interval(secs => ${seconds})
      AND session_processor.healthy
    GROUP BY session_processor.operation`)

/** Ends what has been silent for so long that its process is gone, and forgets what ended long ago; `most` of each. */
export const sweep = async (
  transaction: Transaction,
  silentSeconds: number,
  keepSeconds: number,
  most: number,
): Promise<number> => {
  const { rowCount } = await transaction.query(sql.unsafe`
    UPDATE processing.session SET ended_at = now()
    WHERE id IN (
      SELECT id FROM processing.session
      WHERE ended_at IS NULL AND heard_at < now() - make_interval(secs => ${silentSeconds})
      LIMIT ${most} FOR NO KEY UPDATE SKIP LOCKED
    )`)
  await transaction.query(sql.unsafe`
    DELETE FROM processing.session WHERE id IN (
      SELECT id FROM processing.session WHERE ended_at < now() - make_interval(secs => ${keepSeconds})
      LIMIT ${most} FOR UPDATE SKIP LOCKED
    )`)
  return rowCount
}
