import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

export interface CommandKey {
  readonly requesterId: string
  readonly command: string
  readonly key: string
  readonly digest: string
  readonly jobId: string
}

/** @returns false if the key is taken; a concurrent taker is waited for */
export const reserve = async (transaction: Transaction, key: CommandKey): Promise<boolean> => {
  const { rowCount } = await transaction.query(sql.unsafe`
    INSERT INTO processing.command_key (requester_id, command, key, command_digest, job_id)
    VALUES (${key.requesterId}, ${key.command}, ${key.key}, ${key.digest}, ${key.jobId})
    ON CONFLICT DO NOTHING`)
  return rowCount === 1
}

export const find = (reader: Reader, { requesterId, command, key }: Omit<CommandKey, 'digest' | 'jobId'>) =>
  reader.maybeOne(sql.type(z.object({ digest: z.string(), jobId: z.uuid() }))`
    SELECT command_digest AS digest, job_id AS "jobId"
    FROM processing.command_key
    WHERE requester_id = ${requesterId} AND command = ${command} AND key = ${key}`)

export const removeOlderThan = async (reader: Reader, seconds: number, most: number): Promise<number> => {
  const { rowCount } = await reader.query(sql.unsafe`
    DELETE FROM processing.command_key WHERE (requester_id, command, key) IN (
      SELECT requester_id, command, key FROM processing.command_key
      WHERE created_at < now() - make_interval(secs => ${seconds}) ORDER BY created_at LIMIT ${most}
    )`)
  return rowCount
}

/** A key must not outlive the job that it stands for. */
export const removeOfJob = (transaction: Transaction, jobId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`DELETE FROM processing.command_key WHERE job_id = ${jobId}`)
