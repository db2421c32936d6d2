import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { encodeManifest, inputDigest, type ProjectManifest } from '@platen/worker/protocol'
import { pack } from 'tar-stream'
import { BlobTooLargeError, type StoredBlob } from '../../../platform/blobs/blob-store.ts'
import type { SnapshotDescriptor, Workspace } from '../../workspace/index.ts'
import { manifestOf } from '../domain/bundle.ts'
import * as jobs from '../store/jobs.ts'
import * as queue from '../store/queue.ts'
import type { ProcessingParts } from './context.ts'
import { announceJob, endJob } from './end-job.ts'

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
    stored = await blobs.write(bundle(manifest, snapshot, workspace), { maxBytes })
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

/** The archive's bytes: order, mode, owner and time are fixed, so that equal content gives equal bytes. */
async function* bundle(
  manifest: ProjectManifest,
  snapshot: SnapshotDescriptor,
  workspace: Workspace,
): AsyncGenerator<Uint8Array> {
  const archive = pack()
  const write = async (name: string, size: number, content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>) => {
    const written = Promise.withResolvers<void>()
    const header = { name, size, mode: 0o644, mtime: new Date(0), uid: 0, gid: 0, uname: '', gname: '' }
    const entry = archive.entry(header, (error) => (error ? written.reject(error) : written.resolve()))
    for await (const chunk of content) if (!entry.write(chunk)) await once(entry, 'drain')
    entry.end(null)
    await written.promise
  }
  const fill = async () => {
    const head = encodeManifest(manifest)
    await write('manifest.json', head.length, [head])
    for (const file of snapshot.files) await write(`files/${file.path}`, file.byteLength, verified(file, workspace))
    archive.finalize()
  }
  fill().catch((error: Error) => archive.destroy(error))
  for await (const chunk of archive) yield chunk as Uint8Array
}

/** A manifest that lies about its content must never leave Core. */
async function* verified(file: SnapshotDescriptor['files'][number], workspace: Workspace): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  let byteLength = 0
  for await (const chunk of workspace.snapshots.content(file)) {
    hash.update(chunk)
    byteLength += chunk.length
    yield chunk
  }
  if (byteLength !== file.byteLength || hash.digest('hex') !== file.sha256)
    throw new Error('a frozen file is not what its digest says')
}
