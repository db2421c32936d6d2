import { createHmac, timingSafeEqual } from 'node:crypto'
import type {
  OpenSessionRequest,
  OpenSessionResponse,
  Operation,
  SessionHeartbeatRequest,
  SessionHeartbeatResponse,
} from '@platen/worker/protocol'
import { newId, sha256Hex } from '../../../platform/ids.ts'
import type { Worker } from '../../distribution/index.ts'
import { WorkerRefusal } from '../errors.ts'
import * as attempts from '../store/attempts.ts'
import * as sessions from '../store/sessions.ts'
import { capabilitiesTopic, type ProcessingParts, sessionTopic, workTopic } from './context.ts'
import { once, type WorkerCall } from './replay.ts'

/** A session that misses this many reports is not counted on; after ten times as many it is over. */
const missedHeartbeats = 3
const keepEndedSeconds = 24 * 3600

export const liveSeconds = (limits: { sessionHeartbeatSeconds: number }): number =>
  limits.sessionHeartbeatSeconds * missedHeartbeats

export class WorkerSessions {
  readonly #parts: ProcessingParts

  constructor(parts: ProcessingParts) {
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
    return sessions.findOpen(this.#parts.database.pool, id)
  }

  /** @throws {WorkerRefusal} for operations that this identity or deployment does not have */
  async open(worker: Worker, request: OpenSessionRequest, call: WorkerCall): Promise<OpenSessionResponse> {
    const { deployment, signals } = this.#parts
    const { limits } = deployment
    this.#requireScope(worker, request)
    const done = await once(this.#parts, call, async (transaction) => {
      for (const old of await sessions.endOfInstance(transaction, worker.name, request.instance_id)) {
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
      return { response: { session_id: id }, after: () => signals.announce(capabilitiesTopic) }
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

  /** Repeating it is harmless, so it is not stored. */
  async heartbeat(session: sessions.Session, request: SessionHeartbeatRequest): Promise<SessionHeartbeatResponse> {
    const { database, signals } = this.#parts
    await sessions.hear(database.pool, session.id)
    for (const health of request.processors) {
      const changed = await sessions.updateHealth(database.pool, session.id, health)
      if (changed) {
        signals.announce(capabilitiesTopic)
        signals.announce(workTopic(health.operation))
      }
    }
    return {
      draining: session.draining,
      cancelled_claims: [...(await attempts.listCancelled(database.pool, session.id))],
    }
  }

  async drain(session: sessions.Session): Promise<{ draining: true }> {
    await sessions.drain(this.#parts.database.pool, session.id)
    this.#parts.signals.announce(capabilitiesTopic)
    this.#parts.signals.announce(sessionTopic(session.id))
    return { draining: true }
  }

  sweep(): Promise<number> {
    const { database, deployment } = this.#parts
    const silent = liveSeconds(deployment.limits) * 10
    return database.pool.transaction((transaction) => sessions.sweep(transaction, silent, keepEndedSeconds))
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
