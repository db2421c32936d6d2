import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

export interface CommandKey {
  readonly principalId: string
  readonly command: string
  readonly key: string
  readonly digest: string
  readonly projectId: string
}

/** @returns false if the key is taken; a concurrent taker is waited for */
export const reserve = async (transaction: Transaction, key: CommandKey): Promise<boolean> => {
  const { rowCount } = await transaction.query(sql.unsafe`
    INSERT INTO workspace.command_key (principal_id, command, key, command_digest, project_id)
    VALUES (${key.principalId}, ${key.command}, ${key.key}, ${key.digest}, ${key.projectId})
    ON CONFLICT DO NOTHING`)
  return rowCount === 1
}

export const find = (reader: Reader, { principalId, command, key }: Omit<CommandKey, 'digest' | 'projectId'>) =>
  reader.one(sql.type(z.object({ digest: z.string(), projectId: z.uuid() }))`
    SELECT command_digest AS digest, project_id AS "projectId"
    FROM workspace.command_key
    WHERE principal_id = ${principalId} AND command = ${command} AND key = ${key}`)

export const removeOlderThan = (reader: Reader, seconds: number): Promise<unknown> =>
  reader.query(sql.unsafe`
    DELETE FROM workspace.command_key WHERE created_at < now() - make_interval(secs => ${seconds})`)
