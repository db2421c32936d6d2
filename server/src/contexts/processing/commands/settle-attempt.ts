import type {
  ArtifactRole,
  ClaimHeartbeatResponse,
  CompleteRequest,
  FailRequest,
  PhaseRequest,
  StagingRequest,
} from '@platen/worker/protocol'
import { protocolBase } from '@platen/worker/protocol'
import { BlobMismatchError, BlobTooLargeError, type StoredBlob } from '../../../platform/blobs/blob-store.ts'
import type { Transaction } from '../../../platform/database.ts'
import { newId } from '../../../platform/ids.ts'
import { decideFailure, type Failure } from '../domain/failure.ts'
import { resultFileName, resultRoles } from '../domain/operations.ts'
import { claimCancelled, claimLost, WorkerRefusal } from '../errors.ts'
import * as artifacts from '../store/artifacts.ts'
import * as attempts from '../store/attempts.ts'
import * as jobs from '../store/jobs.ts'
import * as queue from '../store/queue.ts'
import type { Session } from '../store/sessions.ts'
import * as staging from '../store/staging.ts'
import { type ProcessingParts, sessionTopic, workTopic } from './context.ts'
import { announceJob, endJob } from './end-job.ts'
import { once, type WorkerCall } from './replay.ts'

/** Releases that do not count against the limit of attempts; after as many a job is not handed back for free. */
const freeReleases = 20

/** What a session may do with a claim it holds. Every call compares the claim with the database; a stale one has no effect. */
export class Attempts {
  readonly #parts: ProcessingParts
  readonly #finalize: (jobId: string, token: string) => void

  /** @param finalize is called after the commit that accepted a delivery */
  constructor(parts: ProcessingParts, finalize: (jobId: string, token: string) => void) {
    this.#parts = parts
    this.#finalize = finalize
  }

  /** Renews the lease. Repeating it is harmless, so it is not stored. @throws {WorkerRefusal} */
  async heartbeat(session: Session, claimId: string): Promise<ClaimHeartbeatResponse> {
    const { database, deployment } = this.#parts
    const { leaseSeconds } = deployment.limits
    const renewed = await attempts.renew(database.pool, claimId, session.id, leaseSeconds)
    if (!renewed) throw claimLost()
    return { lease_seconds: leaseSeconds, cancel_requested: renewed.cancelRequested }
  }

  async reportPhase(session: Session, claimId: string, { phase }: PhaseRequest, call: WorkerCall) {
    return this.#once(call, async (transaction) => {
      const { job } = await this.#hold(transaction, session, claimId)
      await jobs.updatePhase(transaction, job.id, phase)
      const response = { cancel_requested: job.cancelRequested }
      return { response, after: () => announceJob(this.#parts, { ...job, phase, version: job.version + 1 }) }
    })
  }

  /** Declares a result file. @returns the path of its upload */
  async stage(session: Session, claimId: string, file: StagingRequest, call: WorkerCall): Promise<{ ticket: string }> {
    const { deployment, transferTickets } = this.#parts
    await this.#once(call, async (transaction) => {
      // The claim alone is held, and shared: the files of one delivery are declared side by side.
      const jobId = await attempts.share(transaction, claimId, session.id, deployment.limits.leaseSeconds)
      const job = jobId === null ? null : await jobs.find(transaction, jobId)
      if (!job) throw claimLost()
      if (job.cancelRequested) throw claimCancelled()
      const role = resultRoles[job.operation][file.role]
      if (!role) throw new WorkerRefusal('invalid_request', `${job.operation} has no result "${file.role}".`)
      if (role.mediaType !== file.media_type) {
        throw new WorkerRefusal(
          'invalid_request',
          `The result "${file.role}" is ${role.mediaType}, not ${file.media_type}.`,
        )
      }
      const bound = deployment.operations.get(job.operation)?.output_bytes ?? 0
      if (file.byte_length > bound) throw new WorkerRefusal('payload_too_large', `A result may have ${bound} bytes.`)
      const { role: name, media_type: mediaType, byte_length: byteLength, sha256 } = file
      await staging.declare(transaction, claimId, { role: name, mediaType, byteLength, sha256 })
      return { response: {} }
    })
    const right = { kind: 'output', claim: claimId, role: file.role, sha256: file.sha256 } as const
    return {
      ticket: `${protocolBase}/transfers/${transferTickets.mint(right, deployment.limits.transferTicketSeconds)}`,
    }
  }

  /** The input of a claim, for streaming. */
  async input(session: Session, ticket: string): Promise<{ byteLength: number; bytes: AsyncIterable<Buffer> }> {
    const { blobs, database } = this.#parts
    const right = this.#right(ticket, 'input')
    const attempt = await this.#current(right.claim, session)
    const job = await jobs.find(database.pool, attempt.jobId)
    if (!job?.inputSha256 || job.inputByteLength === null) throw claimLost()
    await database.failpoints.hit('input.before-transfer')
    return { byteLength: job.inputByteLength, bytes: blobs.read(job.inputSha256) }
  }

  /** Takes the bytes of a declared file. */
  async upload(session: Session, ticket: string, source: AsyncIterable<Uint8Array>): Promise<StoredBlob> {
    const { blobs, database, metrics, validator } = this.#parts
    const right = this.#right(ticket, 'output')
    const attempt = await this.#current(right.claim, session)
    const file = await staging.find(database.pool, right.claim, right.role)
    if (file?.sha256 !== right.sha256) {
      throw new WorkerRefusal('ticket_invalid', 'Another file was declared for this role since. Declare it again.')
    }
    const { sha256, byteLength } = file
    await database.failpoints.hit('result.before-transfer')
    try {
      await blobs.write(source, { maxBytes: byteLength, expected: { sha256, byteLength } })
    } catch (error) {
      if (error instanceof BlobTooLargeError)
        throw new WorkerRefusal('length_mismatch', `More came than the ${byteLength} bytes that were declared.`)
      if (error instanceof BlobMismatchError) {
        throw new WorkerRefusal(error.what === 'length' ? 'length_mismatch' : 'digest_mismatch', error.message)
      }
      throw error
    }
    await database.failpoints.hit('result.after-transfer')
    await database.transaction('store-result', async (transaction) => {
      // A claim that ended while the bytes came must not leave a reference behind.
      const { leaseSeconds } = this.#parts.deployment.limits
      if (!(await attempts.share(transaction, right.claim, session.id, leaseSeconds))) throw claimLost()
      await blobs.hold(transaction, `staging:${right.claim}`, [sha256])
      await staging.markStored(transaction, right.claim, right.role, sha256)
    })
    // Looked at while the rest of the delivery is under way; the finalizer asks again and has the answer.
    validator.problemOf({ role: right.role, sha256 }, () => blobs.read(sha256)).catch(() => {})
    metrics.stagedBytes.inc({ operation: attempt.operation, role: right.role }, byteLength)
    return { sha256, byteLength }
  }

  /** Accepts a delivery: the claim ends, and from here on only the finalizer decides. */
  async complete(session: Session, claimId: string, { roles, diagnostics }: CompleteRequest, call: WorkerCall) {
    return this.#once(call, async (transaction) => {
      const { job, attempt } = await this.#hold(transaction, session, claimId)
      if (job.cancelRequested) throw claimCancelled()
      const required = Object.entries(resultRoles[attempt.operation]).flatMap(([role, { required }]) =>
        required ? [role] : [],
      )
      const missing = required.filter((role) => !roles.includes(role as ArtifactRole))
      if (missing.length > 0) throw new WorkerRefusal('result_incomplete', `The result lacks ${missing.join(', ')}.`)
      await this.#deliver(transaction, claimId, roles)
      await attempts.end(transaction, claimId, 'delivered')
      const token = newId()
      const accepted = await jobs.move(transaction, job, 'delivered', {
        phase: 'validating_result',
        diagnostics,
        processorContract: attempt.contract,
        finalization: { token, seconds: this.#parts.deployment.limits.finalizationSeconds },
      })
      return {
        response: { state: 'finalizing' as const },
        after: () => {
          this.announceSettled(accepted, attempt, 'delivered')
          this.#finalize(job.id, token)
        },
      }
    })
  }

  async fail(session: Session, claimId: string, request: FailRequest, call: WorkerCall) {
    const failure: Failure = { class: request.failure_class, message: request.message, limit: request.limit }
    return this.#once(call, async (transaction) => {
      const explanation = await this.#mayExplain(transaction, session, claimId)
      const held = await this.#hold(transaction, session, claimId)
      const roles = resultRoles[held.attempt.operation]
      const odd = request.roles.filter((role) => !roles[role]?.explains)
      if (odd.length > 0) throw new WorkerRefusal('invalid_request', `${odd.join(', ')} cannot explain a failure.`)
      await this.#deliver(transaction, claimId, request.roles)
      const job = await this.settle(transaction, held, 'failed', failure, {
        diagnostics: request.diagnostics,
        explanation,
      })
      return { response: { state: answerState(job) }, after: () => this.announceSettled(job, held.attempt, 'failed') }
    })
  }

  /** Hands the claim back unfinished; the job keeps its place and, within reason, its attempts. */
  async release(session: Session, claimId: string, reason: string, call: WorkerCall) {
    const failure: Failure = {
      class: 'worker_interrupted',
      message: `The worker handed the job back: ${reason}`,
      limit: null,
    }
    return this.#once(call, async (transaction) => {
      const held = await this.#hold(transaction, session, claimId)
      const job = await this.settle(transaction, held, 'released', failure, {
        free: held.job.attemptLimit < freeReleases,
      })
      return { response: { state: answerState(job) }, after: () => this.announceSettled(job, held.attempt, 'released') }
    })
  }

  /** Ends an attempt that delivered nothing and does to its job what the policy says. The caller holds both rows. */
  async settle(
    transaction: Transaction,
    { job, attempt }: attempts.Held,
    outcome: 'failed' | 'released' | 'lease_expired',
    failure: Failure,
    more: { diagnostics?: FailRequest['diagnostics']; explanation?: string | null; free?: boolean } = {},
  ): Promise<jobs.Job> {
    const { blobs, deployment, random } = this.#parts
    const limit = job.attemptLimit + (more.free ? 1 : 0)
    const decision = decideFailure(
      failure.class,
      { number: attempt.number, limit, cancelRequested: job.cancelRequested },
      deployment.limits,
      random(),
    )
    await attempts.end(transaction, attempt.claimId, decision.event === 'cancelled' ? 'cancelled' : outcome, failure)
    let after: jobs.Job
    if (decision.event === 'requeued') {
      after = await jobs.move(transaction, job, 'requeued', {
        phase: 'waiting_for_worker',
        queueSeconds: deployment.limits.queueWaitSeconds,
        delaySeconds: decision.delaySeconds,
        ...(more.free ? { extraAttempt: true } : {}),
      })
      if (decision.delaySeconds === 0) await queue.enter(transaction, job.id)
    } else if (decision.event === 'cancelled') {
      after = await endJob(this.#parts, transaction, job, 'cancelled')
    } else {
      after = await endJob(this.#parts, transaction, job, 'failedForGood', {
        failure,
        diagnostics: more.diagnostics ?? [],
        processorContract: attempt.contract,
      })
      if (more.explanation) await this.#explain(transaction, after, attempt.claimId, more.explanation)
    }
    await staging.remove(transaction, attempt.claimId)
    await blobs.release(transaction, `staging:${attempt.claimId}`)
    return after
  }

  /** Tells of a job whose attempt ended: it made room for another job, and its session has a slot free. */
  announceSettled(job: jobs.Job, { sessionId }: attempts.Attempt, outcome: attempts.Outcome): void {
    const { log, metrics, signals } = this.#parts
    const { operation } = job
    metrics.attemptsEnded.inc({ operation, outcome })
    if (job.failure?.class === 'contract_violation') {
      metrics.contractViolations.inc({ operation })
      log.error({ job_id: job.id, operation, message: job.failure.message }, 'a worker broke its contract')
    }
    announceJob(this.#parts, job)
    signals.announce(workTopic(operation))
    signals.announce(sessionTopic(sessionId))
  }

  /** Files that explain a failure become artifacts with it. */
  async #explain(transaction: Transaction, job: jobs.Job, claimId: string, projectName: string): Promise<void> {
    for (const file of await staging.list(transaction, claimId)) {
      const role = resultRoles[job.operation][file.role]
      if (!file.delivered || !role) continue
      const id = newId()
      const { mediaType, byteLength, sha256 } = file
      await artifacts.insert(transaction, {
        id,
        jobId: job.id,
        role: file.role,
        mediaType,
        byteLength,
        sha256,
        fileName: resultFileName(projectName, role),
      })
      await this.#parts.blobs.hold(transaction, `artifact:${id}`, [sha256])
    }
  }

  /** The project's name if its requester may still be shown something of it; takes the fence before any row of ours. */
  async #mayExplain(transaction: Transaction, session: Session, claimId: string): Promise<string | null> {
    const { leaseSeconds } = this.#parts.deployment.limits
    const attempt = await attempts.findCurrent(transaction, claimId, session.id, leaseSeconds)
    const job = attempt && (await jobs.find(transaction, attempt.jobId))
    return job ? publishableName(this.#parts, transaction, job) : null
  }

  async #deliver(transaction: Transaction, claimId: string, roles: readonly ArtifactRole[]): Promise<void> {
    const stored = new Set(
      (await staging.list(transaction, claimId)).flatMap((file) => (file.stored ? [file.role] : [])),
    )
    const absent = roles.filter((role) => !stored.has(role))
    if (absent.length > 0)
      throw new WorkerRefusal('result_incomplete', `The bytes of ${absent.join(', ')} have not been uploaded.`)
    await staging.markDelivered(transaction, claimId, roles)
  }

  /** Holds the job and then the claim, in the documented order. @throws {WorkerRefusal} `claim_lost` */
  async #hold(transaction: Transaction, session: Session, claimId: string): Promise<attempts.Held> {
    const { leaseSeconds } = this.#parts.deployment.limits
    const held = await attempts.hold(transaction, claimId, session.id, leaseSeconds)
    if (!held) throw claimLost()
    return held
  }

  /** The attempt behind a claim, for what changes nothing. @throws {WorkerRefusal} `claim_lost` */
  async #current(claimId: string, session: Session): Promise<attempts.Attempt> {
    const { database, deployment } = this.#parts
    const attempt = await attempts.findCurrent(database.pool, claimId, session.id, deployment.limits.leaseSeconds)
    if (!attempt) throw claimLost()
    return attempt
  }

  #right<K extends 'input' | 'output'>(ticket: string, kind: K) {
    const right = this.#parts.transferTickets.open(ticket)
    if (right?.kind !== kind) throw new WorkerRefusal('ticket_invalid', 'This ticket is not valid here, or it is over.')
    return right as Extract<typeof right, { kind: K }>
  }

  async #once<T>(
    call: WorkerCall,
    run: (transaction: Transaction) => Promise<{ response: T; after?: () => void }>,
  ): Promise<T> {
    const done = await once(this.#parts, call, run)
    return (done as NonNullable<typeof done>).response
  }
}

/**
 * Holds the project open and says its name, or null if it is gone or its requester may not see it any more.
 * A transaction that publishes calls this first: the fence comes before the job.
 */
export async function publishableName(
  { access, workspace }: ProcessingParts,
  transaction: Transaction,
  job: jobs.Job,
): Promise<string | null> {
  if (job.projectId === null) return null
  const project = await workspace.projects.holdOpen(transaction, job.projectId)
  if (!project || !(await access.may(transaction, job.requesterId, 'project:read', job.projectId))) return null
  return project.name
}

const answerState = ({ state }: jobs.Job): 'queued' | 'failed' | 'cancelled' =>
  state === 'queued' || state === 'cancelled' ? state : 'failed'
