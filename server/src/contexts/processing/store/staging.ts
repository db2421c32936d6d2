import { type ArtifactRole, artifactRoles } from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

const stagingRow = z.object({
  role: z.enum(artifactRoles),
  mediaType: z.string(),
  byteLength: z.int(),
  sha256: z.string(),
  stored: z.boolean(),
  delivered: z.boolean(),
})
export type Staged = z.infer<typeof stagingRow>

const columns = sql.fragment`
  role,
  media_type AS "mediaType",
  byte_length AS "byteLength",
  sha256,
  stored_at IS NOT NULL AS stored,
  delivered`

export const declare = (
  transaction: Transaction,
  claimId: string,
  file: Pick<Staged, 'role' | 'mediaType' | 'byteLength' | 'sha256'>,
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO processing.staging (claim_id, role, media_type, byte_length, sha256)
    VALUES (${claimId}, ${file.role}, ${file.mediaType}, ${file.byteLength}, ${file.sha256})
    ON CONFLICT (claim_id, role) DO UPDATE SET
      media_type = excluded.media_type,
      byte_length = excluded.byte_length,
      sha256 = excluded.sha256,
      stored_at = CASE WHEN staging.sha256 = excluded.sha256 THEN staging.stored_at END`)

export const find = (reader: Reader, claimId: string, role: ArtifactRole): Promise<Staged | null> =>
  reader.maybeOne(sql.type(stagingRow)`
    SELECT ${columns} FROM processing.staging WHERE claim_id = ${claimId} AND role = ${role}`)

export const list = (reader: Reader, claimId: string): Promise<readonly Staged[]> =>
  reader.any(sql.type(stagingRow)`SELECT ${columns} FROM processing.staging WHERE claim_id = ${claimId} ORDER BY role`)

export const markStored = (
  transaction: Transaction,
  claimId: string,
  role: ArtifactRole,
  sha256: string,
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    UPDATE processing.staging SET stored_at = coalesce(stored_at, now())
    WHERE claim_id = ${claimId} AND role = ${role} AND sha256 = ${sha256}`)

export const markDelivered = (
  transaction: Transaction,
  claimId: string,
  roles: readonly ArtifactRole[],
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    UPDATE processing.staging SET delivered = true
    WHERE claim_id = ${claimId} AND role = ANY (${sql.array([...roles], 'text')}) AND stored_at IS NOT NULL`)

/** What the accepted delivery of a job consists of. */
export const listDelivered = (reader: Reader, jobId: string): Promise<readonly (Staged & { claimId: string })[]> =>
  reader.any(sql.type(stagingRow.extend({ claimId: z.uuid() }))`
    SELECT staging.claim_id AS "claimId", staging.role, staging.media_type AS "mediaType", staging.byte_length AS "byteLength",
      staging.sha256, staging.stored_at IS NOT NULL AS stored, staging.delivered
    FROM processing.staging
    JOIN processing.attempt ON attempt.claim_id = staging.claim_id
    WHERE attempt.job_id = ${jobId} AND attempt.outcome = 'delivered' AND staging.delivered
    ORDER BY role`)

export const remove = (transaction: Transaction, claimId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`DELETE FROM processing.staging WHERE claim_id = ${claimId}`)

/** Claims that ended and have staged files which no finalizer will come for. */
export const listOrphanClaims = (reader: Reader, most: number): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(z.object({ claimId: z.uuid() }))`
    SELECT DISTINCT staging.claim_id AS "claimId"
    FROM processing.staging
    JOIN processing.attempt ON attempt.claim_id = staging.claim_id
    JOIN processing.job ON job.id = attempt.job_id
    WHERE attempt.ended_at IS NOT NULL AND (attempt.outcome <> 'delivered' OR job.finished_at IS NOT NULL)
    LIMIT ${most}`)
