import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

const fileRow = z.object({
  id: z.uuid(),
  projectId: z.uuid(),
  path: z.string(),
  kind: z.enum(['document', 'asset']),
  assetSha256: z.string().nullable(),
  assetByteLength: z.int().nullable(),
  updatedAt: z.date(),
})
export type FileRow = z.infer<typeof fileRow>

const columns = sql.fragment`
  id,
  project_id AS "projectId",
  path,
  kind,
  asset_sha256 AS "assetSha256",
  asset_byte_length AS "assetByteLength",
  updated_at AS "updatedAt"`

export const listOfProjects = (reader: Reader, projectIds: readonly string[]): Promise<readonly FileRow[]> =>
  reader.any(sql.type(fileRow)`
    SELECT ${columns} FROM workspace.file WHERE project_id = ANY (${sql.array([...projectIds], 'uuid')})`)

export const findByKey = (reader: Reader, projectId: string, key: string): Promise<FileRow | null> =>
  reader.maybeOne(sql.type(fileRow)`
    SELECT ${columns} FROM workspace.file WHERE project_id = ${projectId} AND path_key = ${key}`)

/**
 * A file that cannot live beside `path`: one that is a folder of it, one below it, or one whose folders differ from
 * its own only in case.
 */
export const findCollision = (
  reader: Reader,
  projectId: string,
  wanted: { key: string; folders: readonly string[]; folderKeys: readonly string[] },
): Promise<string | null> =>
  reader.maybeOneFirst(sql.type(z.object({ path: z.string() }))`
    SELECT path
    FROM workspace.file
    WHERE project_id = ${projectId}
      AND (
        path_key = ANY (${sql.array([...wanted.folderKeys], 'text')})
        OR starts_with(path_key, ${`${wanted.key}/`})
        OR EXISTS (
          SELECT
          FROM unnest(${sql.array([...wanted.folders], 'text')}, ${sql.array([...wanted.folderKeys], 'text')}) AS folder (name, key)
          WHERE starts_with(path_key, folder.key || '/') AND NOT starts_with(path, folder.name || '/')
        )
      )
    LIMIT 1`)

export const measure = (reader: Reader, projectId: string): Promise<{ count: number; assetBytes: number }> =>
  reader.one(sql.type(z.object({ count: z.int(), assetBytes: z.int() }))`
    SELECT count(*) AS count, coalesce(sum(asset_byte_length), 0)::bigint AS "assetBytes"
    FROM workspace.file
    WHERE project_id = ${projectId}`)

export const upsert = (
  transaction: Transaction,
  file: { id: string; projectId: string; path: string; key: string } & (
    | { kind: 'document' }
    | { kind: 'asset'; sha256: string; byteLength: number }
  ),
): Promise<FileRow> =>
  transaction.one(sql.type(fileRow)`
    INSERT INTO workspace.file (id, project_id, path, path_key, kind, asset_sha256, asset_byte_length)
    VALUES (
      ${file.id}, ${file.projectId}, ${file.path}, ${file.key}, ${file.kind},
      ${file.kind === 'asset' ? file.sha256 : null}, ${file.kind === 'asset' ? file.byteLength : null}
    )
    ON CONFLICT (id) DO UPDATE SET
      kind = excluded.kind,
      asset_sha256 = excluded.asset_sha256,
      asset_byte_length = excluded.asset_byte_length,
      updated_at = now()
    RETURNING ${columns}`)

export const remove = (transaction: Transaction, id: string): Promise<unknown> =>
  transaction.query(sql.unsafe`DELETE FROM workspace.file WHERE id = ${id}`)
