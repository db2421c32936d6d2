import { type Operation, operations, type ProcessorRegistration } from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

const sessionRow = z.object({ id: z.uuid(), workerName: z.string(), draining: z.boolean() })
export type Session = z.infer<typeof sessionRow>

const columns = sql.fragment`id, worker_name AS "workerName", draining_since IS NOT NULL AS draining`

export const findOpen = (reader: Reader, id: string): Promise<Session | null> =>
  reader.maybeOne(sql.type(sessionRow)`SELECT ${columns} FROM processing.session WHERE id = ${id} AND ended_at IS NULL`)

/** @returns the ids of the sessions that end by it */
export const endOfInstance = (
  transaction: Transaction,
  workerName: string,
  instanceId: string,
): Promise<readonly string[]> =>
  transaction.anyFirst(sql.type(z.object({ id: z.uuid() }))`
    UPDATE processing.session SET ended_at = now()
    WHERE worker_name = ${workerName} AND instance_id = ${instanceId} AND ended_at IS NULL
    RETURNING id`)

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

export const hear = (reader: Reader, id: string): Promise<unknown> =>
  reader.query(sql.unsafe`UPDATE processing.session SET heard_at = now() WHERE id = ${id} AND ended_at IS NULL`)

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

/** Where the claim path starts: one session's processor, held against its own other claims. */
export const lockProcessor = (
  transaction: Transaction,
  sessionId: string,
  operation: Operation,
): Promise<{ slots: number; contract: string } | null> =>
  transaction.maybeOne(sql.type(z.object({ slots: z.int(), contract: z.string() }))`
    SELECT session_processor.slots, session_processor.contract
    FROM processing.session_processor
    JOIN processing.session ON session.id = session_processor.session_id
    WHERE session_processor.session_id = ${sessionId}
      AND session_processor.operation = ${operation}
      AND session_processor.healthy
      AND session.ended_at IS NULL
      AND session.draining_since IS NULL
    FOR NO KEY UPDATE OF session_processor`)

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
          SELECT count(*) FROM processing.attempt
          WHERE attempt.session_id = session.id
            AND attempt.operation = session_processor.operation
            AND attempt.ended_at IS NULL
        )
      ) AS free
    FROM processing.session_processor
    JOIN processing.session ON session.id = session_processor.session_id
    WHERE session.ended_at IS NULL
      AND session.draining_since IS NULL
      AND session.heard_at > now() - make_interval(secs => ${seconds})
      AND session_processor.healthy
    GROUP BY session_processor.operation`)

/** Ends what has been silent for so long that its process is gone, and forgets what ended long ago. */
export const sweep = async (transaction: Transaction, silentSeconds: number, keepSeconds: number): Promise<number> => {
  const { rowCount } = await transaction.query(sql.unsafe`
    UPDATE processing.session SET ended_at = now()
    WHERE ended_at IS NULL AND heard_at < now() - make_interval(secs => ${silentSeconds})`)
  await transaction.query(sql.unsafe`
    DELETE FROM processing.session WHERE ended_at < now() - make_interval(secs => ${keepSeconds})`)
  return rowCount
}
