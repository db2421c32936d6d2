import { type ArtifactRole, artifactRoles } from '@platen/worker/protocol'
import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

const artifactRow = z.object({
  id: z.uuid(),
  jobId: z.uuid(),
  role: z.enum(artifactRoles),
  mediaType: z.string(),
  fileName: z.string(),
  byteLength: z.int(),
  sha256: z.string(),
})
export type Artifact = z.infer<typeof artifactRow>

const columns = sql.fragment`
  id,
  job_id AS "jobId",
  role,
  media_type AS "mediaType",
  file_name AS "fileName",
  byte_length AS "byteLength",
  sha256`

export const insert = (
  transaction: Transaction,
  artifact: {
    id: string
    jobId: string
    role: ArtifactRole
    mediaType: string
    fileName: string
    byteLength: number
    sha256: string
  },
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO processing.artifact (id, job_id, role, media_type, file_name, byte_length, sha256)
    VALUES (
      ${artifact.id}, ${artifact.jobId}, ${artifact.role}, ${artifact.mediaType},
      ${artifact.fileName}, ${artifact.byteLength}, ${artifact.sha256}
    )`)

export const listOfJobs = (reader: Reader, jobIds: readonly string[]): Promise<readonly Artifact[]> =>
  reader.any(sql.type(artifactRow)`
    SELECT ${columns} FROM processing.artifact WHERE job_id = ANY (${sql.array([...jobIds], 'uuid')}) ORDER BY role`)

export const findMany = (reader: Reader, ids: readonly string[]): Promise<readonly Artifact[]> =>
  reader.any(sql.type(artifactRow)`
    SELECT ${columns} FROM processing.artifact WHERE id = ANY (${sql.array([...ids], 'uuid')})`)

/** A second publication of one job is refused by its primary key. */
export const insertPublication = (transaction: Transaction, jobId: string, claimId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO processing.publication (job_id, claim_id) VALUES (${jobId}, ${claimId})`)
