import { newId } from '../../../platform/ids.ts'
import type { Failure } from '../domain/failure.ts'
import { resultFileName, resultRoles } from '../domain/operations.ts'
import * as artifacts from '../store/artifacts.ts'
import * as jobs from '../store/jobs.ts'
import * as staging from '../store/staging.ts'
import { jobTopic, type ProcessingParts } from './context.ts'
import { announceJob, endJob } from './end-job.ts'
import { publishableName } from './settle-attempt.ts'

type Delivered = Awaited<ReturnType<typeof staging.listDelivered>>

/** A validation that takes longer is worth telling that it is over. */
const noticeableMilliseconds = 250

/** Takes a finalization over whose lease is past. @returns its new token, or null if another has it */
export async function takeOver({ database, deployment }: ProcessingParts, jobId: string): Promise<string | null> {
  const token = newId()
  const job = await jobs.takeFinalization(database.pool, jobId, token, deployment.limits.finalizationSeconds)
  return job && token
}

/**
 * Makes a delivery the outcome of its job. A random token with its own lease fences every step: a finalizer that was
 * taken over finds its token gone and changes nothing. May be called any number of times for a job.
 */
export async function finalize(parts: ProcessingParts, jobId: string, token: string): Promise<void> {
  const { database, signals } = parts
  const job = await jobs.find(database.pool, jobId)
  if (job?.state !== 'finalizing') return
  const started = performance.now()
  const delivered = await staging.listDelivered(database.pool, jobId)
  const invalid = await findInvalid(parts, job, delivered)
  if (performance.now() - started > noticeableMilliseconds) {
    await database.transaction('tell-publishing', async (transaction) => {
      if (await jobs.lockFinalization(transaction, jobId, token))
        await jobs.updatePhase(transaction, jobId, 'publishing_result')
    })
    signals.announce(jobTopic(jobId))
  }
  const ended = await publish(parts, job, token, delivered, invalid)
  if (ended) announceJob(parts, ended)
}

async function findInvalid(
  { blobs, validator }: ProcessingParts,
  job: jobs.Job,
  delivered: Delivered,
): Promise<Failure | null> {
  for (const file of delivered) {
    const problem = await validator.problemOf(file, () => blobs.read(file.sha256))
    if (problem !== null) {
      const message = `The result "${file.role}" was refused: ${problem}`
      return { class: 'contract_violation', message, limit: null }
    }
  }
  if (delivered.length > 0) return null
  return { class: 'contract_violation', message: `The delivery of job ${job.id} has no files.`, limit: null }
}

/** One transaction: artifacts, publication and terminal state, or none of them. */
function publish(
  parts: ProcessingParts,
  { id }: jobs.Job,
  token: string,
  delivered: Delivered,
  invalid: Failure | null,
): Promise<jobs.Job | null> {
  const { blobs, database } = parts
  return database.transaction('publish', async (transaction) => {
    const unlocked = await jobs.find(transaction, id)
    const name = unlocked ? await publishableName(parts, transaction, unlocked) : null
    const job = await jobs.lockFinalization(transaction, id, token)
    if (!job) return null
    for (const claimId of new Set(delivered.map((file) => file.claimId))) {
      await staging.remove(transaction, claimId)
      await blobs.release(transaction, `staging:${claimId}`)
    }
    if (name === null) return endJob(parts, transaction, job, 'rejected', { failure: revoked, diagnostics: [] })
    if (invalid) return endJob(parts, transaction, job, 'rejected', { failure: invalid })
    for (const file of delivered) {
      const role = resultRoles[job.operation][file.role]
      if (!role) throw new Error(`${job.operation} does not declare the result ${file.role}`)
      const artifactId = newId()
      const { mediaType, byteLength, sha256 } = file
      const fileName = resultFileName(name, role)
      await artifacts.insert(transaction, {
        id: artifactId,
        jobId: id,
        role: file.role,
        mediaType,
        fileName,
        byteLength,
        sha256,
      })
      await blobs.hold(transaction, `artifact:${artifactId}`, [sha256])
    }
    await artifacts.insertPublication(transaction, id, (delivered[0] as Delivered[number]).claimId)
    return endJob(parts, transaction, job, 'published')
  })
}

const revoked: Failure = {
  class: 'invalid_input',
  message: 'The project was deleted, or access to it was revoked, before the result could be published.',
  limit: null,
}
