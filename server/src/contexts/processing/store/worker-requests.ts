import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

export interface RequestKey {
  /** Session, or worker instance before there is one. */
  readonly scope: string
  readonly route: string
  readonly key: string
}

/** @returns false if the key is taken; a concurrent duplicate is waited for */
export const reserve = async (
  transaction: Transaction,
  { scope, route, key }: RequestKey,
  digest: string,
): Promise<boolean> => {
  const { rowCount } = await transaction.query(sql.unsafe`
    INSERT INTO processing.worker_request (session_id, route, key, request_digest)
    VALUES (${scope}, ${route}, ${key}, ${digest})
    ON CONFLICT DO NOTHING`)
  return rowCount === 1
}

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

export const removeOlderThan = (reader: Reader, seconds: number): Promise<unknown> =>
  reader.query(sql.unsafe`
    DELETE FROM processing.worker_request WHERE created_at < now() - make_interval(secs => ${seconds})`)
