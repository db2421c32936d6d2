import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'
import { type SnapshotDescriptor, snapshotDescriptor } from '../domain/snapshot.ts'

export const insert = (
  transaction: Transaction,
  snapshot: { id: string; projectId: string; descriptor: SnapshotDescriptor },
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO workspace.snapshot (id, project_id, descriptor)
    VALUES (${snapshot.id}, ${snapshot.projectId}, ${sql.jsonb(snapshot.descriptor)})`)

export const find = (reader: Reader, id: string): Promise<SnapshotDescriptor | null> =>
  reader.maybeOneFirst(sql.type(z.object({ descriptor: snapshotDescriptor }))`
    SELECT descriptor FROM workspace.snapshot WHERE id = ${id}`)

export const remove = (transaction: Transaction, id: string): Promise<unknown> =>
  transaction.query(sql.unsafe`DELETE FROM workspace.snapshot WHERE id = ${id}`)
