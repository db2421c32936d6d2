import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

const uploadRow = z.object({
  id: z.uuid(),
  principalId: z.uuid(),
  sha256: z.string(),
  byteLength: z.int(),
  stored: z.boolean(),
  expiresAt: z.date(),
})
export type Upload = z.infer<typeof uploadRow>

const columns = sql.fragment`
  id,
  principal_id AS "principalId",
  declared_sha256 AS "sha256",
  declared_byte_length AS "byteLength",
  stored_at IS NOT NULL AS stored,
  expires_at AS "expiresAt"`

export const insert = (
  reader: Reader,
  upload: { id: string; principalId: string; sha256: string; byteLength: number; seconds: number },
): Promise<Upload> =>
  reader.one(sql.type(uploadRow)`
    INSERT INTO workspace.upload (id, principal_id, declared_sha256, declared_byte_length, expires_at)
    VALUES (
      ${upload.id}, ${upload.principalId}, ${upload.sha256}, ${upload.byteLength},
      now() + make_interval(secs => ${upload.seconds})
    )
    RETURNING ${columns}`)

export const countOpen = (reader: Reader, principalId: string): Promise<number> =>
  reader.oneFirst(sql.type(z.object({ count: z.int() }))`
    SELECT count(*) AS count FROM workspace.upload
    WHERE principal_id = ${principalId} AND stored_at IS NULL AND expires_at > now()`)

export const find = (reader: Reader, id: string): Promise<Upload | null> =>
  reader.maybeOne(sql.type(uploadRow)`SELECT ${columns} FROM workspace.upload WHERE id = ${id} AND expires_at > now()`)

export const markStored = async (transaction: Transaction, id: string): Promise<boolean> => {
  const { rowCount } = await transaction.query(sql.unsafe`
    UPDATE workspace.upload SET stored_at = coalesce(stored_at, now()) WHERE id = ${id} AND expires_at > now()`)
  return rowCount === 1
}

/** A row that a writer holds at this moment waits for the next sweep. */
export const removeExpired = (transaction: Transaction): Promise<readonly string[]> =>
  transaction.anyFirst(sql.type(z.object({ id: z.uuid() }))`
    DELETE FROM workspace.upload
    WHERE id IN (SELECT id FROM workspace.upload WHERE expires_at < now() LIMIT 500 FOR UPDATE SKIP LOCKED)
    RETURNING id`)
