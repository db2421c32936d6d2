import type { Operation } from '@platen/worker/protocol'
import type { Transaction } from '../../../platform/database.ts'
import type { Failure } from '../domain/failure.ts'
import * as artifacts from '../store/artifacts.ts'
import * as attempts from '../store/attempts.ts'
import * as commandKeys from '../store/command-keys.ts'
import * as jobs from '../store/jobs.ts'
import * as queue from '../store/queue.ts'
import * as staging from '../store/staging.ts'
import * as workerRequests from '../store/worker-requests.ts'
import type { ProcessingParts } from './context.ts'
import { announceJob, endJob } from './end-job.ts'
import type { Attempts } from './settle-attempt.ts'

const leaseExpired: Failure = {
  class: 'worker_interrupted',
  message: 'The worker stopped answering.',
  limit: null,
}

/** One pass settles at most this much of a kind; the next goes on. */
const batch = 100
const sweptAtOnce = 2_000
/** A look over the whole line is cut in as many parts, one a pass. */
const slices = 16

/**
 * Background clean-up. Each pass lists without locks, then settles one thing a transaction and looks again under its
 * lock, so passes may overlap, in one replica or in many.
 */
export class Reapers {
  readonly #parts: ProcessingParts
  readonly #attempts: Attempts
  #slice = 0

  constructor(parts: ProcessingParts, settled: Attempts) {
    this.#parts = parts
    this.#attempts = settled
  }

  /** Attempts whose worker fell silent. */
  async reapExpiredLeases(): Promise<number> {
    const { database, deployment } = this.#parts
    const { leaseSeconds } = deployment.limits
    let count = 0
    for (const { claimId, jobId } of await attempts.listLeaseExpired(database.pool, leaseSeconds, batch)) {
      const settled = await database.transaction('end-lease', async (transaction) => {
        const job = await jobs.lock(transaction, jobId)
        const attempt = job && (await attempts.lockOpen(transaction, claimId))
        // Renewed before it was held.
        if (!attempt || !(await attempts.isLeaseOver(transaction, claimId, leaseSeconds))) return null
        const after = await this.#attempts.settle(transaction, { job, attempt }, 'lease_expired', leaseExpired)
        return { after, attempt }
      })
      if (!settled) continue
      count += 1
      this.#attempts.announceSettled(settled.after, settled.attempt, 'lease_expired')
    }
    return count
  }

  /** Jobs that waited longer than they may, and preparations that nobody finished in time. */
  async reapWaits(): Promise<number> {
    const { database } = this.#parts
    const waiting = await jobs.listWaitExpired(database.pool, batch)
    const abandoned = await jobs.listAbandonedPreparations(database.pool, batch)
    let count = 0
    for (const id of [...waiting, ...abandoned]) {
      const expired = await database.transaction('expire-wait', async (transaction) => {
        const job = await jobs.lock(transaction, id)
        if (!job || !(await jobs.isPastWait(transaction, id))) return null
        return endJob(this.#parts, transaction, job, job.state === 'queued' ? 'waitExpired' : 'abandoned')
      })
      if (!expired) continue
      count += 1
      announceJob(this.#parts, expired)
    }
    return count
  }

  /** Jobs whose back-off is over stand in line again. */
  async promoteRested(): Promise<number> {
    const { database } = this.#parts
    let count = 0
    for (const id of await jobs.listRested(database.pool, batch)) {
      const promoted = await database.transaction('end-backoff', async (transaction) => {
        const job = await jobs.lock(transaction, id)
        if (!job || !(await jobs.endBackoff(transaction, id))) return null
        await queue.enter(transaction, id)
        return job
      })
      if (!promoted) continue
      count += 1
      announceJob(this.#parts, promoted)
    }
    return count
  }

  /** Preparations whose replica fell silent. @returns the jobs to prepare again */
  async takeSilentPreparations(): Promise<readonly string[]> {
    const { database, deployment } = this.#parts
    const taken: string[] = []
    for (const id of await jobs.listSilentPreparations(database.pool, batch)) {
      const job = await jobs.takePreparation(database.pool, id, deployment.limits.preparerSeconds)
      if (job) taken.push(job.id)
    }
    return taken
  }

  listUnfinalized(): Promise<readonly string[]> {
    return jobs.listUnfinalized(this.#parts.database.pool, batch)
  }

  /** Keys and stored answers past their time. */
  async sweepKeys(): Promise<number> {
    const { database, deployment } = this.#parts
    const { commandKeySeconds, workerRequestSeconds } = deployment.limits
    return (
      (await commandKeys.removeOlderThan(database.pool, commandKeySeconds, sweptAtOnce)) +
      (await workerRequests.removeOlderThan(database.pool, workerRequestSeconds, sweptAtOnce))
    )
  }

  /** Staged files whose attempt ended without a delivery. None is left by any path that is known. */
  async sweepStaging(): Promise<number> {
    const { blobs, database } = this.#parts
    const orphans = await staging.listOrphanClaims(database.pool, batch)
    for (const claimId of orphans) {
      await database.transaction('sweep-staging', async (transaction) => {
        await staging.remove(transaction, claimId)
        await blobs.release(transaction, `staging:${claimId}`)
      })
    }
    return orphans.length
  }

  /** Jobs that ended longer ago than the deployment keeps them, with their artifacts. */
  async sweepRetention(): Promise<number> {
    const { database, deployment } = this.#parts
    const old = await jobs.listPastRetention(database.pool, deployment.limits.jobRetentionSeconds, batch)
    for (const id of old) await database.transaction('forget', (transaction) => this.#forget(transaction, id))
    return old.length
  }

  /** Repairs one part of the line. A count above 0 means that the claim path has a defect. */
  async repairQueue(): Promise<number> {
    const { database, deployment, log } = this.#parts
    const width = 256 / slices
    const bound = (byte: number, rest: string) =>
      `${byte.toString(16).padStart(2, '0')}${rest.repeat(6)}-${[4, 4, 4, 12].map((length) => rest.repeat(length)).join('-')}`
    const range = { first: bound(this.#slice * width, '0'), last: bound((this.#slice + 1) * width - 1, 'f') }
    this.#slice = (this.#slice + 1) % slices
    let repaired = 0
    for (const operation of deployment.operations.keys() as Iterable<Operation>) {
      for (const requesterId of await queue.listUnsound(database.pool, operation, range)) {
        await queue.repair(database.pool, operation, requesterId)
        log.error({ operation }, 'a place in line was wrong and has been repaired; please report this')
        repaired += 1
      }
    }
    return repaired
  }

  async #forget(transaction: Transaction, id: string): Promise<void> {
    const job = await jobs.lock(transaction, id)
    if (!job?.finishedAt) return
    for (const artifact of await artifacts.listOfJobs(transaction, [id]))
      await this.#parts.blobs.release(transaction, `artifact:${artifact.id}`)
    await commandKeys.removeOfJob(transaction, id)
    await jobs.remove(transaction, id)
  }
}
