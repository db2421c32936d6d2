import { setTimeout as sleep } from 'node:timers/promises'
import type { AcquireRequest, AcquireResponse, Claim } from '@platen/worker/protocol'
import { protocolBase } from '@platen/worker/protocol'
import { Bell } from '../../../platform/bell.ts'
import type { Transaction } from '../../../platform/database.ts'
import { newId } from '../../../platform/ids.ts'
import type * as jobs from '../store/jobs.ts'
import * as queue from '../store/queue.ts'
import type * as sessions from '../store/sessions.ts'
import { type Engine, type ProcessingParts, sessionTopic } from './context.ts'
import { announceJob } from './end-job.ts'
import { type Effect, once, type WorkerCall } from './replay.ts'

/** Claims as they are stored: tickets are minted for each answer. */
type StoredClaim = Omit<Claim, 'input'> & { readonly input: Omit<Claim['input'], 'ticket'> }
interface StoredClaims {
  readonly claims: readonly StoredClaim[]
}

/** Another claimer or a canceller had what we passed over; by then it has let go. */
const busyPauseMilliseconds = 5
const busyTries = 3
const busyAgainMilliseconds = 20

/** What a look that claimed nothing found out. */
type Found = 'nothing' | 'busy' | 'no_room'

/**
 * Waits for work and claims it. While there is none it asks the database nothing: it is woken.
 *
 * @param signal ends the wait when the caller went away; claims already made stay stored for its retry
 */
export async function acquire(
  parts: Engine,
  session: sessions.Session,
  request: AcquireRequest,
  call: WorkerCall,
  signal: AbortSignal,
): Promise<AcquireResponse> {
  const { book, deployment, waiters } = parts
  const { processor: operation } = request
  const deadline = performance.now() + Math.min(request.expires_in, deployment.limits.acquireWaitSeconds) * 1000
  const bell = new Bell()
  const onAbort = () => bell.ring()
  signal.addEventListener('abort', onAbort)
  const unwatch = book.watch(session.id, bell)
  let leave = waiters.enter(operation, bell)
  try {
    // An answer may have been lost, and is asked for again.
    for (let look = !waiters.isEmpty(operation) || book.mayBeRepeated(session, call.key); ; look = true) {
      bell.reset()
      let pause = Number.POSITIVE_INFINITY
      if (look) {
        const news = waiters.news(operation)
        const { claims, found } = await takeWork(parts, session, request, call)
        if (claims) {
          book.noteAnswer(session.id, call.key)
          return { claims }
        }
        if (found === 'nothing') waiters.foundNothing(operation, news)
        if (found === 'busy') pause = busyAgainMilliseconds * (0.5 + parts.random())
      }
      // A session that drains waits for nothing.
      if ((await book.find(session.id))?.draining !== false) return { claims: [] }
      const left = deadline - performance.now()
      if (left <= 0 || signal.aborted) return { claims: [] }
      leave()
      leave = waiters.enter(operation, bell)
      await bell.wait(Math.min(left, pause))
      if (signal.aborted) return { claims: [] }
      // Its time is over, and nothing happened: there is nothing new to find.
      if (!bell.rung && pause === Number.POSITIVE_INFINITY) return { claims: [] }
    }
  } finally {
    leave()
    unwatch()
    signal.removeEventListener('abort', onAbort)
  }
}

async function takeWork(
  parts: Engine,
  session: sessions.Session,
  request: AcquireRequest,
  call: WorkerCall,
): Promise<{ claims: Claim[] | null; found: Found }> {
  let found: Found = 'nothing'
  const claimed = await once(parts, call, async (transaction) => {
    const taken = await claimAll(parts, transaction, session, request)
    if (typeof taken !== 'string') return taken
    found = taken
    return null
  })
  return { claims: claimed?.response.claims.map((claim) => withTicket(parts, claim)) ?? null, found }
}

async function claimAll(
  parts: Engine,
  transaction: Transaction,
  session: sessions.Session,
  request: AcquireRequest,
): Promise<Effect<StoredClaims> | Found> {
  const { activePerProject, activePerRequester, leaseSeconds } = parts.deployment.limits
  const limits = { activePerRequester, activePerProject, leaseSeconds }
  const claims: StoredClaim[] = []
  const started: jobs.Job[] = []
  let found: Found = 'nothing'
  for (let tries = busyTries; claims.length < request.permits && tries > 0; ) {
    const claimIds = Array.from({ length: request.permits - claims.length }, newId)
    const { processor: operation } = request
    const taken = await queue.claim(transaction, { operation, sessionId: session.id, claimIds, ...limits })
    for (const [index, job] of taken.jobs.entries()) {
      claims.push(describe(parts, job, claimIds[index] as string))
      started.push(job)
    }
    found = taken.found
    if (taken.jobs.length === claimIds.length || found !== 'busy') break
    tries -= 1
    await sleep(busyPauseMilliseconds * (0.5 + parts.random()))
  }
  if (claims.length === 0) return found
  return {
    response: { claims },
    after: () => {
      parts.waiters.claimed(request.processor, claims.length, found !== 'nothing' || claims.length === request.permits)
      for (const job of started) announceJob(parts, job)
      // Another replica that this session calls must know that it holds claims now.
      parts.signals.announce(sessionTopic(session.id))
    },
  }
}

function describe({ deployment }: ProcessingParts, job: jobs.Job, claimId: string): StoredClaim {
  const { id, operation, inputSha256, inputByteLength, inputDigest } = job
  const limits = deployment.operations.get(operation)
  if (!limits || inputSha256 === null || inputByteLength === null || inputDigest === null) {
    throw new Error(`job ${id} was claimable without an input or an allowed operation`)
  }
  return {
    claim_id: claimId,
    job_id: id,
    attempt: job.attemptCount,
    operation,
    options: job.options as Claim['options'],
    input: { byte_length: inputByteLength, sha256: inputSha256, input_digest: inputDigest },
    limits,
    lease_seconds: deployment.limits.leaseSeconds,
  }
}

function withTicket({ deployment, transferTickets }: ProcessingParts, claim: StoredClaim): Claim {
  const ticket = transferTickets.mint({ kind: 'input', claim: claim.claim_id }, deployment.limits.transferTicketSeconds)
  return { ...claim, input: { ...claim.input, ticket: `${protocolBase}/transfers/${ticket}` } }
}
