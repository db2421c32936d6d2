import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

const digestRow = z.object({ id: z.uuid(), sha256: z.string(), byteLength: z.int() })
export type DocumentDigest = z.infer<typeof digestRow>

export const findState = (transaction: Transaction, id: string): Promise<Buffer | null> =>
  transaction.maybeOneFirst(sql.type(z.object({ state: z.instanceof(Buffer) }))`
    SELECT state FROM collaboration.document WHERE id = ${id} FOR NO KEY UPDATE`)

export const upsert = (
  transaction: Transaction,
  document: { id: string; projectId: string; state: Uint8Array; text: string; sha256: string; byteLength: number },
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO collaboration.document (id, project_id, state, text, sha256, byte_length)
    VALUES (${document.id}, ${document.projectId}, ${sql.binary(Buffer.from(document.state))}, ${document.text}, ${document.sha256}, ${document.byteLength})
    ON CONFLICT (id) DO UPDATE SET
      state = excluded.state,
      text = excluded.text,
      sha256 = excluded.sha256,
      byte_length = excluded.byte_length,
      update_count = document.update_count + 1,
      updated_at = now()`)

export const findDigests = (reader: Reader, ids: readonly string[]): Promise<readonly DocumentDigest[]> =>
  reader.any(sql.type(digestRow)`
    SELECT id, sha256, byte_length AS "byteLength"
    FROM collaboration.document
    WHERE id = ANY (${sql.array([...ids], 'uuid')})`)

export const sumBytes = (reader: Reader, projectId: string): Promise<number> =>
  reader.oneFirst(sql.type(z.object({ sum: z.int() }))`
    SELECT coalesce(sum(byte_length), 0)::bigint AS sum FROM collaboration.document WHERE project_id = ${projectId}`)

export const findText = (reader: Reader, id: string): Promise<string | null> =>
  reader.maybeOneFirst(sql.type(z.object({ text: z.string() }))`
    SELECT text FROM collaboration.document WHERE id = ${id}`)

export const remove = (transaction: Transaction, id: string): Promise<unknown> =>
  transaction.query(sql.unsafe`DELETE FROM collaboration.document WHERE id = ${id}`)

export const removeOfProject = (transaction: Transaction, projectId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`DELETE FROM collaboration.document WHERE project_id = ${projectId}`)
