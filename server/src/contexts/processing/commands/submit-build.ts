import { canonicalJson, type LatexOptions, type Operation } from '@platen/worker/protocol'
import { IdempotencyConflictError, QuotaExceededError, ValidationError } from '../../../platform/errors.ts'
import { newId, sha256Hex } from '../../../platform/ids.ts'
import { normalizePath, type SnapshotDescriptor } from '../../workspace/index.ts'
import { retryAfterSeconds } from '../domain/scheduling.ts'
import { OperationUnavailableError, ProjectTypeMismatchError } from '../errors.ts'
import * as attempts from '../store/attempts.ts'
import * as commandKeys from '../store/command-keys.ts'
import * as jobs from '../store/jobs.ts'
import * as queue from '../store/queue.ts'
import type { ProcessingParts } from './context.ts'
import { announceJob } from './end-job.ts'

export interface BuildCommand {
  readonly projectId: string
  readonly idempotencyKey: string
  readonly latex: LatexOptions
}

const operation = 'latex.compile.pdf/v1' satisfies Operation

/**
 * Reserves the key, freezes the project under its fence and admits the job, in one transaction: whatever is refused
 * leaves nothing. Building the archive comes after, outside of any lock.
 *
 * @param prepare is called after the commit with the job's id
 * @throws {NotFoundError} @throws {ValidationError} @throws {IdempotencyConflictError} @throws {QuotaExceededError}
 * @throws {OperationUnavailableError} @throws {ProjectTypeMismatchError}
 */
export async function submitBuild(
  parts: ProcessingParts,
  prepare: (jobId: string) => void,
  viewerId: string,
  given: BuildCommand,
): Promise<{ job: jobs.Job; replayed: boolean }> {
  const { access, database, deployment, workspace } = parts
  const { limits } = deployment
  const options = { ...given.latex, entry_path: soundEntry(given.latex.entry_path) }
  const digest = sha256Hex(canonicalJson({ operation, project: given.projectId, options }))
  const key = { requesterId: viewerId, command: 'buildProject', key: given.idempotencyKey }
  const result = await database.transaction('submit', async (transaction) => {
    await access.require(transaction, viewerId, 'project:submit', given.projectId)
    if (!isOffered(parts, operation)) throw new OperationUnavailableError(operation)
    const id = newId()
    if (!(await commandKeys.reserve(transaction, { ...key, digest, jobId: id }))) {
      const first = await commandKeys.find(transaction, key)
      if (first?.digest !== digest) throw new IdempotencyConflictError(given.idempotencyKey)
      const job = await jobs.find(transaction, first.jobId)
      if (!job) throw new Error('a command key outlived its job')
      return { job, replayed: true }
    }
    const snapshot = await workspace.snapshots.freeze(transaction, id, given.projectId)
    if (snapshot.projectType !== 'LATEX') throw new ProjectTypeMismatchError(operation, snapshot.projectType)
    requireEntry(snapshot, options.entry_path)
    await jobs.lockAdmission(transaction)
    if ((await jobs.countWaiting(transaction)) >= limits.queuedJobs) {
      const startedLastMinute = await attempts.countStarted(transaction, 60)
      const secondsToNextExpiry = await queue.secondsToNextExpiry(transaction)
      const seconds = retryAfterSeconds({ startedLastMinute, secondsToNextExpiry })
      throw new QuotaExceededError(`Too many jobs are waiting. Try again in ${seconds} s.`, seconds)
    }
    const job = await jobs.insertPreparing(transaction, {
      id,
      operation,
      requesterId: viewerId,
      projectId: given.projectId,
      options,
      attemptLimit: limits.attempts,
      prepareSeconds: limits.prepareSeconds,
      preparerSeconds: limits.preparerSeconds,
    })
    return { job, replayed: false }
  })
  if (!result.replayed) {
    announceJob(parts, result.job)
    prepare(result.job.id)
  }
  return result
}

/** Whether the deployment allows the operation, and to some worker. */
export const isOffered = ({ deployment }: ProcessingParts, wanted: Operation): boolean =>
  deployment.operations.has(wanted) && deployment.workers.some((worker) => worker.operations.includes(wanted))

function soundEntry(entryPath: string | null): string | null {
  if (entryPath === null) return null
  const normalized = normalizePath(entryPath)
  if ('issue' in normalized) throw new ValidationError([{ ...normalized.issue, path: ['latex', 'entryPath'] }])
  return normalized.path
}

function requireEntry(snapshot: SnapshotDescriptor, given: string | null): void {
  const paths = new Set(snapshot.files.map((file) => file.path))
  const entry = given ?? snapshot.entryPath
  if (entry !== null && !paths.has(entry)) {
    const path = given === null ? ['settings', 'entryPath'] : ['latex', 'entryPath']
    throw new ValidationError([
      { path, code: 'not_found', message: `The project has no file "${entry}" to start from.` },
    ])
  }
  if (entry === null && ![...paths].some((path) => /\.(tex|ltx|latex)$/i.test(path))) {
    throw new ValidationError([
      {
        path: ['files'],
        code: 'required',
        message: 'The project has no .tex file to start from. Write one, or name the entry.',
      },
    ])
  }
}
