import { latexEngines } from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'
import { projectTypes } from '../domain/snapshot.ts'

const projectRow = z.object({
  id: z.uuid(),
  name: z.string(),
  type: z.enum(projectTypes),
  engine: z.enum(latexEngines).nullable(),
  entryPath: z.string().nullable(),
  sourceEpoch: z.int().nullable(),
  generation: z.int(),
  createdAt: z.date(),
  updatedAt: z.date(),
  /** Microseconds since 1970: timestamps lose theirs in a Date, and a cursor must not. */
  createdMicros: z.int(),
})
export type Project = z.infer<typeof projectRow>
export type ProjectSettings = Pick<Project, 'engine' | 'entryPath' | 'sourceEpoch'>

const columns = sql.fragment`
  id,
  name,
  type,
  engine,
  entry_path AS "entryPath",
  source_epoch AS "sourceEpoch",
  generation,
  created_at AS "createdAt",
  updated_at AS "updatedAt",
  (extract(epoch FROM created_at) * 1000000)::bigint AS "createdMicros"`

export const findMany = (reader: Reader, ids: readonly string[]): Promise<readonly Project[]> =>
  reader.any(sql.type(projectRow)`
    SELECT ${columns} FROM workspace.project
    WHERE id = ANY (${sql.array([...ids], 'uuid')}) AND deleted_at IS NULL`)

/** Takes the project's fence: whoever changes the project, or freezes it, holds this row. */
export const lock = (transaction: Transaction, id: string): Promise<Project | null> =>
  transaction.maybeOne(sql.type(projectRow)`
    SELECT ${columns} FROM workspace.project WHERE id = ${id} AND deleted_at IS NULL FOR NO KEY UPDATE`)

/** Keeps the project from being changed or deleted until the transaction ends, beside others who do the same. */
export const lockShared = (transaction: Transaction, id: string): Promise<Project | null> =>
  transaction.maybeOne(sql.type(projectRow)`
    SELECT ${columns} FROM workspace.project WHERE id = ${id} AND deleted_at IS NULL FOR SHARE`)

export const insert = (
  transaction: Transaction,
  project: Pick<Project, 'id' | 'name' | 'type'> & ProjectSettings,
): Promise<Project> =>
  transaction.one(sql.type(projectRow)`
    INSERT INTO workspace.project (id, name, type, engine, entry_path, source_epoch)
    VALUES (${project.id}, ${project.name}, ${project.type}, ${project.engine}, ${project.entryPath}, ${project.sourceEpoch})
    RETURNING ${columns}`)

export const updateSettings = (transaction: Transaction, id: string, settings: ProjectSettings): Promise<Project> =>
  transaction.one(sql.type(projectRow)`
    UPDATE workspace.project
    SET
      engine = ${settings.engine},
      entry_path = ${settings.entryPath},
      source_epoch = ${settings.sourceEpoch},
      generation = generation + 1,
      updated_at = now()
    WHERE id = ${id}
    RETURNING ${columns}`)

export const bumpGeneration = (transaction: Transaction, id: string): Promise<unknown> =>
  transaction.query(sql.unsafe`
    UPDATE workspace.project SET generation = generation + 1, updated_at = now() WHERE id = ${id}`)

export const markDeleted = (transaction: Transaction, id: string): Promise<unknown> =>
  transaction.query(sql.unsafe`UPDATE workspace.project SET deleted_at = now() WHERE id = ${id}`)

export interface Page {
  readonly limit: number
  /** Only rows strictly beyond this one in the page's direction. */
  readonly beyond: { readonly micros: number; readonly id: string } | null
  /** Newest first, or from the oldest up for a page that is read backward. */
  readonly oldestFirst: boolean
}

export const page = (
  reader: Reader,
  ids: readonly string[],
  { limit, beyond, oldestFirst }: Page,
): Promise<readonly Project[]> => {
  const direction = oldestFirst ? sql.fragment`ASC` : sql.fragment`DESC`
  const operator = oldestFirst ? sql.fragment`>` : sql.fragment`<`
  const from = beyond
    ? sql.fragment`AND (created_at, id) ${operator} (to_timestamp(0) + ${beyond.micros} * interval '1 microsecond', ${beyond.id}::uuid)`
    : sql.fragment``
  return reader.any(sql.type(projectRow)`
    SELECT ${columns} FROM workspace.project
    WHERE id = ANY (${sql.array([...ids], 'uuid')}) AND deleted_at IS NULL ${from}
    ORDER BY created_at ${direction}, id ${direction}
    LIMIT ${limit}`)
}
