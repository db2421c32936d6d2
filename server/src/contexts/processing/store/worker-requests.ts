import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

export interface RequestKey {
  /** Session, or worker instance before there is one. */
  readonly scope: string
  readonly route: string
  readonly key: string
}

/**
 * @returns false if the key is taken
 * @throws an error that {@link isLockTimeout} knows, when a concurrent duplicate goes on for too long
 */
export const reserve = (
  transaction: Transaction,
  { scope, route, key }: RequestKey,
  digest: string,
): Promise<boolean> =>
  transaction.oneFirst(sql.type(z.object({ reserved: z.boolean() }))`
    SELECT processing.reserve_request(${scope}, ${route}, ${key}, ${digest}) AS reserved`)

/** PostgreSQL's `lock_not_available`, however it is wrapped. */
export const isLockTimeout = (error: unknown): boolean =>
  error instanceof Error && ((error as { code?: unknown }).code === '55P03' || isLockTimeout(error.cause))

export const find = (reader: Reader, { scope, route, key }: RequestKey) =>
  reader.maybeOne(sql.type(z.object({ digest: z.string(), status: z.int().nullable(), response: z.json() }))`
    SELECT request_digest AS digest, status, response
    FROM processing.worker_request
    WHERE session_id = ${scope} AND route = ${route} AND key = ${key}`)

export const store = (
  transaction: Transaction,
  { scope, route, key }: RequestKey,
  status: number,
  response: unknown,
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    UPDATE processing.worker_request
    SET status = ${status}, response = ${sql.jsonb(response as never)}
    WHERE session_id = ${scope} AND route = ${route} AND key = ${key}`)

export const removeOlderThan = async (reader: Reader, seconds: number, most: number): Promise<number> => {
  const { rowCount } = await reader.query(sql.unsafe`
    DELETE FROM processing.worker_request WHERE (session_id, route, key) IN (
      SELECT session_id, route, key FROM processing.worker_request
      WHERE created_at < now() - make_interval(secs => ${seconds}) ORDER BY created_at LIMIT ${most}
    )`)
  return rowCount
}
