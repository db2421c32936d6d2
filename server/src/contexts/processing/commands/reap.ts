import type { Failure } from '../domain/failure.ts'
import * as attempts from '../store/attempts.ts'
import * as commandKeys from '../store/command-keys.ts'
import * as jobs from '../store/jobs.ts'
import * as queue from '../store/queue.ts'
import * as workerRequests from '../store/worker-requests.ts'
import type { ProcessingParts } from './context.ts'
import { announceJob, endJob } from './end-job.ts'
import type { Attempts } from './settle-attempt.ts'

const leaseExpired: Failure = {
  class: 'worker_interrupted',
  message: 'The worker stopped answering.',
  limit: null,
}

/**
 * Background clean-up. Each pass lists without locks, then settles one thing a transaction and looks again under its
 * lock, so passes may overlap, in one replica or in many.
 */
export class Reapers {
  readonly #parts: ProcessingParts
  readonly #attempts: Attempts

  constructor(parts: ProcessingParts, settled: Attempts) {
    this.#parts = parts
    this.#attempts = settled
  }

  /** Attempts whose worker fell silent. */
  async reapExpiredLeases(): Promise<number> {
    const { database } = this.#parts
    const expired = await attempts.listLeaseExpired(database.pool)
    for (const { claimId, jobId } of expired) {
      const settled = await database.pool.transaction(async (transaction) => {
        const job = await jobs.lock(transaction, jobId)
        const attempt = job && (await attempts.lockLeaseExpired(transaction, claimId))
        return attempt ? this.#attempts.settle(transaction, { job, attempt }, 'lease_expired', leaseExpired) : null
      })
      if (settled) this.#attempts.announceSettled(settled, 'lease_expired')
    }
    return expired.length
  }

  /** Jobs that waited longer than they may, and preparations that nobody finished in time. */
  async reapWaits(): Promise<number> {
    const { database } = this.#parts
    const waiting = await jobs.listWaitExpired(database.pool)
    const abandoned = await jobs.listAbandonedPreparations(database.pool)
    for (const id of [...waiting, ...abandoned]) {
      const expired = await database.pool.transaction(async (transaction) => {
        const job = await jobs.lock(transaction, id)
        if (!job || !(await jobs.isPastWait(transaction, id))) return null
        return endJob(this.#parts, transaction, job, job.state === 'queued' ? 'waitExpired' : 'abandoned')
      })
      if (expired) announceJob(this.#parts, expired)
    }
    return waiting.length + abandoned.length
  }

  /** Jobs whose back-off is over stand in line again. */
  async promoteRested(): Promise<number> {
    const { database } = this.#parts
    const rested = await jobs.listRested(database.pool)
    for (const id of rested) {
      const promoted = await database.pool.transaction(async (transaction) => {
        const job = await jobs.lock(transaction, id)
        if (!job || !(await jobs.endBackoff(transaction, id))) return null
        await queue.enter(transaction, id)
        return job
      })
      if (promoted) announceJob(this.#parts, promoted)
    }
    return rested.length
  }

  /** Preparations whose replica fell silent. @returns the jobs to prepare again */
  async takeSilentPreparations(): Promise<readonly string[]> {
    const { database, deployment } = this.#parts
    const taken: string[] = []
    for (const id of await jobs.listSilentPreparations(database.pool)) {
      const job = await jobs.takePreparation(database.pool, id, deployment.limits.preparerSeconds)
      if (job) taken.push(job.id)
    }
    return taken
  }

  listUnfinalized(): Promise<readonly string[]> {
    return jobs.listUnfinalized(this.#parts.database.pool)
  }

  /** Keys and stored answers past their time. */
  async sweepKeys(): Promise<void> {
    const { database, deployment } = this.#parts
    await commandKeys.removeOlderThan(database.pool, deployment.limits.commandKeySeconds)
    await workerRequests.removeOlderThan(database.pool, deployment.limits.workerRequestSeconds)
  }
}
