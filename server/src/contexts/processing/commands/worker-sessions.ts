import { createHmac, timingSafeEqual } from 'node:crypto'
import type {
  OpenSessionRequest,
  OpenSessionResponse,
  Operation,
  SessionHeartbeatRequest,
  SessionHeartbeatResponse,
} from '@platen/worker/protocol'
import { Bell } from '../../../platform/bell.ts'
import { newId, sha256Hex } from '../../../platform/ids.ts'
import type { Worker } from '../../distribution/index.ts'
import { WorkerRefusal } from '../errors.ts'
import * as attempts from '../store/attempts.ts'
import * as sessions from '../store/sessions.ts'
import { capabilitiesTopic, type Engine, sessionTopic, workTopic } from './context.ts'
import { once, type WorkerCall } from './replay.ts'

/** A session that misses this many reports is not counted on; after ten times as many it is over. */
const missedHeartbeats = 3
const keepEndedSeconds = 24 * 3600
const sweptAtOnce = 500

export const liveSeconds = (limits: { sessionHeartbeatSeconds: number }): number =>
  limits.sessionHeartbeatSeconds * missedHeartbeats

export class WorkerSessions {
  readonly #parts: Engine

  constructor(parts: Engine) {
    this.#parts = parts
  }

  /** The worker identity behind a token, or null. */
  identify(token: string): Worker | null {
    const digest = Buffer.from(sha256Hex(token))
    const known = this.#parts.deployment.workers.find((worker) =>
      timingSafeEqual(Buffer.from(worker.tokenSha256), digest),
    )
    return known && token.startsWith(`plw_${known.name}.`) ? known : null
  }

  /** The open session behind a session token, or null. */
  async authenticate(token: string): Promise<sessions.Session | null> {
    const [, id] = /^pws_([0-9a-f-]{36})\.[\w-]{43}$/.exec(token) ?? []
    if (!id || !timingSafeEqual(Buffer.from(token), Buffer.from(this.#token(id)))) return null
    return this.#parts.book.find(id)
  }

  /** @throws {WorkerRefusal} for operations that this identity or deployment does not have */
  async open(worker: Worker, request: OpenSessionRequest, call: WorkerCall): Promise<OpenSessionResponse> {
    const { deployment, signals } = this.#parts
    const { limits } = deployment
    this.#requireScope(worker, request)
    const done = await once(this.#parts, call, async (transaction) => {
      await sessions.lockInstance(transaction, worker.name, request.instance_id)
      const replaced = await sessions.listOfInstance(transaction, worker.name, request.instance_id)
      for (const old of replaced) {
        // A claim that is under way for it comes before, and is ended with the others; a later one finds it closed.
        await sessions.lockProcessors(transaction, old)
        await sessions.end(transaction, old)
        await attempts.expireLeases(transaction, old)
      }
      const id = newId()
      const { instance_id: instanceId, executor } = request
      await sessions.insert(transaction, {
        id,
        workerName: worker.name,
        instanceId,
        executor,
      })
      for (const processor of request.processors) await sessions.insertProcessor(transaction, id, processor)
      const after = () => {
        signals.announce(capabilitiesTopic)
        for (const old of replaced) signals.announce(sessionTopic(old))
      }
      return { response: { session_id: id }, after }
    })
    const { session_id } = (done as NonNullable<typeof done>).response
    return {
      session_id,
      session_token: this.#token(session_id),
      heartbeat_seconds: limits.sessionHeartbeatSeconds,
      lease_seconds: limits.leaseSeconds,
      acquire_wait_seconds: limits.acquireWaitSeconds,
    }
  }

  /**
   * Notes that the session lives, and tells it to drain or which claims to cancel: at once if it was not told yet, else
   * when that changes or the wait it asked for is over. Repeating it is harmless, so it is not stored.
   *
   * @throws {WorkerRefusal} `session_lost`
   */
  async heartbeat(
    session: sessions.Session,
    request: SessionHeartbeatRequest,
    signal: AbortSignal,
  ): Promise<SessionHeartbeatResponse> {
    const { book, deployment } = this.#parts
    const wait = Math.min(request.wait_seconds ?? 0, deployment.limits.sessionHeartbeatSeconds)
    const deadline = performance.now() + wait * 1000
    book.hear(session.id)
    await this.#noteHealth(session.id, request.processors)
    const bell = new Bell()
    const onAbort = () => bell.ring()
    signal.addEventListener('abort', onAbort)
    const unwatch = book.watch(session.id, bell)
    try {
      for (;;) {
        bell.reset()
        const now = await book.find(session.id)
        if (!now) throw new WorkerRefusal('session_lost', 'This session is over. Open another.')
        const left = deadline - performance.now()
        const untold = book.untold(now)
        if (untold.length > 0 || left <= 0 || signal.aborted) {
          book.tell(session.id, untold)
          book.hear(session.id)
          return { draining: now.draining, cancelled_claims: [...now.cancelledClaims] }
        }
        await bell.wait(left)
      }
    } finally {
      unwatch()
      signal.removeEventListener('abort', onAbort)
    }
  }

  async #noteHealth(id: string, processors: SessionHeartbeatRequest['processors']): Promise<void> {
    const { book, database, signals } = this.#parts
    for (const health of processors) {
      if (!book.isNewHealth(id, health.operation, `${health.healthy} ${health.reason}`)) continue
      if (!(await sessions.updateHealth(database.pool, id, health))) continue
      signals.announce(capabilitiesTopic)
      signals.announce(sessionTopic(id))
      if (health.healthy) signals.announce(workTopic(health.operation))
    }
  }

  /** From its answer on the session gets no claim more: one that is under way is waited for. */
  async drain(session: sessions.Session): Promise<{ draining: true }> {
    const { database, signals } = this.#parts
    await database.transaction('drain', async (transaction) => {
      await sessions.lockProcessors(transaction, session.id)
      await sessions.drain(transaction, session.id)
    })
    signals.announce(capabilitiesTopic)
    signals.announce(sessionTopic(session.id))
    return { draining: true }
  }

  sweep(): Promise<number> {
    const { database, deployment } = this.#parts
    const silent = liveSeconds(deployment.limits) * 10
    return database.transaction('sweep-sessions', (transaction) =>
      sessions.sweep(transaction, silent, keepEndedSeconds, sweptAtOnce),
    )
  }

  #token(sessionId: string): string {
    return `pws_${sessionId}.${createHmac('sha256', this.#parts.sessionKey).update(sessionId).digest('base64url')}`
  }

  #requireScope(worker: Worker, { executor, processors }: OpenSessionRequest): void {
    const { deployment } = this.#parts
    if (executor === 'subprocess' && deployment.production) {
      throw new WorkerRefusal(
        'invalid_request',
        'A production deployment takes no worker without a sandbox. Run it with PLATEN_EXECUTOR=bubblewrap.',
      )
    }
    const seen = new Set<Operation>()
    for (const { operation } of processors) {
      if (!worker.operations.includes(operation) || !deployment.operations.has(operation)) {
        throw new WorkerRefusal(
          'invalid_request',
          `The deployment file does not let worker ${worker.name} serve ${operation}.`,
        )
      }
      if (seen.has(operation)) throw new WorkerRefusal('invalid_request', `${operation} is registered twice.`)
      seen.add(operation)
    }
  }
}
