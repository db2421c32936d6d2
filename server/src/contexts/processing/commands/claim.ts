import { setTimeout as sleep } from 'node:timers/promises'
import type { AcquireRequest, AcquireResponse, Claim } from '@platen/worker/protocol'
import { protocolBase } from '@platen/worker/protocol'
import { Bell } from '../../../platform/bell.ts'
import type { Transaction } from '../../../platform/database.ts'
import { newId } from '../../../platform/ids.ts'
import * as attempts from '../store/attempts.ts'
import * as jobs from '../store/jobs.ts'
import * as queue from '../store/queue.ts'
import * as sessions from '../store/sessions.ts'
import { type ProcessingParts, sessionTopic, workTopic } from './context.ts'
import { announceJob } from './end-job.ts'
import { once, type WorkerCall } from './replay.ts'

/** Claims as they are stored: tickets are minted for each answer. */
type StoredClaim = Omit<Claim, 'input'> & { readonly input: Omit<Claim['input'], 'ticket'> }
interface StoredClaims {
  readonly claims: readonly StoredClaim[]
}

/** Safety net under the wake-ups: a waiting call looks by itself this often. */
const lookAgainMilliseconds = 5_000

/**
 * Waits for work and claims it.
 *
 * @param signal ends the wait when the caller went away; claims already made stay stored for its retry
 */
export async function acquire(
  parts: ProcessingParts,
  session: sessions.Session,
  request: AcquireRequest,
  call: WorkerCall,
  signal: AbortSignal,
): Promise<AcquireResponse> {
  const { deployment, signals } = parts
  const deadline = performance.now() + Math.min(request.expires_in, deployment.limits.acquireWaitSeconds) * 1000
  const bell = new Bell()
  // Before the first look, so that what happens between look and wait is not missed.
  const unsubscribes = [workTopic(request.processor), sessionTopic(session.id)].map((topic) =>
    signals.subscribe(topic, () => bell.ring()),
  )
  const onAbort = () => bell.ring()
  signal.addEventListener('abort', onAbort)
  try {
    for (;;) {
      bell.reset()
      const claimed = await once(parts, call, (transaction) => claimAll(parts, transaction, session, request))
      if (claimed) return { claims: claimed.response.claims.map((claim) => withTicket(parts, claim)) }
      // A session that drains waits for nothing.
      if ((await sessions.findOpen(parts.database.pool, session.id))?.draining !== false) return { claims: [] }
      const left = deadline - performance.now()
      if (left <= 0 || signal.aborted) return { claims: [] }
      const look = Math.min(left, lookAgainMilliseconds)
      await bell.wait(look)
      if (signal.aborted) return { claims: [] }
    }
  } finally {
    for (const unsubscribe of unsubscribes) unsubscribe()
    signal.removeEventListener('abort', onAbort)
  }
}

/** Another claimer or a canceller had what we passed over; by then it has let go. */
const busyPauseMilliseconds = 5
const busyTries = 3

async function claimAll(
  parts: ProcessingParts,
  transaction: Transaction,
  session: sessions.Session,
  request: AcquireRequest,
) {
  const { activePerProject, activePerRequester } = parts.deployment.limits
  const processor = await sessions.lockProcessor(transaction, session.id, request.processor)
  if (!processor) return null
  // What the session already runs holds slots of its own: beyond them there is nothing to take.
  const most = Math.min(request.permits, processor.slots)
  const claims: StoredClaim[] = []
  const started: jobs.Job[] = []
  for (let tries = busyTries; claims.length < most && tries > 0; ) {
    const claimId = newId()
    const { jobId, busy } = await queue.takeNext(transaction, {
      operation: request.processor,
      sessionId: session.id,
      claimId,
      ceiling: processor.slots,
      activePerRequester,
      activePerProject,
    })
    if (jobId === null) {
      if (!busy) break
      tries -= 1
      await sleep(busyPauseMilliseconds * (0.5 + parts.random()))
      continue
    }
    const running = await jobs.move(transaction, { id: jobId, state: 'queued' }, 'claimed', {
      phase: 'processing',
      newAttempt: true,
    })
    claims.push(await start(parts, transaction, session, running, claimId, processor.contract))
    started.push(running)
  }
  if (claims.length === 0) return null
  return {
    response: { claims } satisfies StoredClaims as StoredClaims,
    after: () => {
      for (const job of started) announceJob(parts, job)
    },
  }
}

async function start(
  { deployment }: ProcessingParts,
  transaction: Transaction,
  session: sessions.Session,
  job: jobs.Job,
  claimId: string,
  contract: string,
): Promise<StoredClaim> {
  const { id, operation, requesterId, projectId, inputSha256, inputByteLength, inputDigest } = job
  const limits = deployment.operations.get(operation)
  if (!limits || inputSha256 === null || inputByteLength === null || inputDigest === null) {
    throw new Error(`job ${id} was claimable without an input or an allowed operation`)
  }
  const { leaseSeconds } = deployment.limits
  const number = job.attemptCount
  await attempts.insert(transaction, {
    claimId,
    jobId: id,
    number,
    operation,
    requesterId,
    projectId,
    sessionId: session.id,
    contract,
    leaseSeconds,
  })
  return {
    claim_id: claimId,
    job_id: id,
    attempt: number,
    operation,
    options: job.options as Claim['options'],
    input: { byte_length: inputByteLength, sha256: inputSha256, input_digest: inputDigest },
    limits,
    lease_seconds: leaseSeconds,
  }
}

function withTicket({ deployment, transferTickets }: ProcessingParts, claim: StoredClaim): Claim {
  const ticket = transferTickets.mint({ kind: 'input', claim: claim.claim_id }, deployment.limits.transferTicketSeconds)
  return { ...claim, input: { ...claim.input, ticket: `${protocolBase}/transfers/${ticket}` } }
}
