import { inputDigest } from '@platen/worker/protocol'
import { BlobTooLargeError, type StoredBlob } from '../../../platform/blobs/blob-store.ts'
import { manifestOf } from '../domain/bundle.ts'
import * as jobs from '../store/jobs.ts'
import * as queue from '../store/queue.ts'
import type { ProcessingParts } from './context.ts'
import { announceJob, endJob } from './end-job.ts'
import { packBundle } from './pack-bundle.ts'

/** Headers and padding of the archive beside the project's own bytes. */
const framingBytesPerFile = 4096

/**
 * Builds the immutable input of a job from its snapshot and queues the job. May run twice: the bytes are stored by
 * their digest, and only one run finds the job still in preparation.
 */
export async function prepareInput(parts: ProcessingParts, jobId: string): Promise<void> {
  const { blobs, database, deployment, workspace } = parts
  const snapshot = await workspace.snapshots.find(database.pool, jobId)
  if (!snapshot) return
  const manifest = manifestOf(snapshot)
  const maxBytes = deployment.limits.projectBytes + (snapshot.files.length + 16) * framingBytesPerFile
  let stored: StoredBlob
  await database.failpoints.hit('bundle.before-transfer')
  try {
    stored = await blobs.write(
      packBundle(manifest, snapshot.files, (file) => workspace.snapshots.content(file)),
      { maxBytes },
    )
  } catch (error) {
    if (error instanceof BlobTooLargeError) return failPreparation(parts, jobId, error.message)
    throw error
  }
  await database.failpoints.hit('bundle.after-transfer')
  const queued = await database.transaction('queue', async (transaction) => {
    const job = await jobs.lock(transaction, jobId)
    if (job?.state !== 'preparing') return null
    await blobs.hold(transaction, `job-input:${jobId}`, [stored.sha256])
    await workspace.snapshots.release(transaction, jobId)
    const queued = await jobs.move(transaction, job, 'captured', {
      phase: 'waiting_for_worker',
      input: { ...stored, digest: inputDigest(manifest) },
      queueSeconds: deployment.limits.queueWaitSeconds,
    })
    await queue.enter(transaction, jobId)
    return queued
  })
  if (queued) announceJob(parts, queued)
}

async function failPreparation(parts: ProcessingParts, jobId: string, message: string): Promise<void> {
  const failed = await parts.database.transaction('fail-preparation', async (transaction) => {
    const job = await jobs.lock(transaction, jobId)
    if (job?.state !== 'preparing') return null
    return endJob(parts, transaction, job, 'captureFailed', {
      failure: { class: 'invalid_input', message, limit: null },
    })
  })
  if (failed) announceJob(parts, failed)
}
