import type { z } from 'zod'
import * as messages from './messages.ts'
import type { ProblemCode } from './words.ts'

/** Everything of the protocol lies below this path of Core's address. */
export const protocolBase = '/worker/v1'

/** The HTTP status that goes with each code of a problem document. */
export const problemStatuses = {
  unauthorized: 401,
  not_found: 404,
  invalid_request: 400,
  idempotency_key_missing: 400,
  idempotency_key_in_use: 409,
  idempotency_key_reused: 422,
  session_lost: 401,
  claim_lost: 409,
  claim_cancelled: 409,
  ticket_invalid: 404,
  digest_mismatch: 422,
  length_mismatch: 400,
  result_incomplete: 422,
  payload_too_large: 413,
  database_unavailable: 503,
  internal: 500,
} as const satisfies Record<ProblemCode, number>

/** One call of the protocol. A body is described by its zod schema, or is `bytes`, or is absent (null). */
export interface Route<Request extends Body = Body, Response extends Body = Body> {
  readonly method: 'GET' | 'POST' | 'PUT'
  /** Below {@link protocolBase}; `{name}` marks a parameter. */
  readonly path: string
  readonly summary: string
  /** Which token `Authorization: Bearer` carries. */
  readonly token: 'worker' | 'session'
  readonly request: Request
  readonly response: Response
  readonly successStatus: 200 | 201
  readonly problems: readonly ProblemCode[]
}
export type Body = z.ZodObject | 'bytes' | null

function route<Request extends Body, Response extends Body>(of: Route<Request, Response>): Route<Request, Response> {
  return of
}

const anyCall = ['unauthorized', 'invalid_request', 'database_unavailable', 'internal'] as const
const anyPost = [
  ...anyCall,
  'idempotency_key_missing',
  'idempotency_key_in_use',
  'idempotency_key_reused',
  'payload_too_large',
] as const
const sessionPost = [...anyPost, 'not_found', 'session_lost'] as const
const claimPost = [...anyPost, 'session_lost', 'claim_lost'] as const

/** The whole protocol as data: Core mounts it, the agent calls it, OpenAPI is printed from it. */
export const routes = {
  openSession: route({
    method: 'POST',
    path: '/sessions',
    summary: 'Register this worker process and its processors; returns the session token, intervals and lease.',
    token: 'worker',
    request: messages.openSessionRequest,
    response: messages.openSessionResponse,
    successStatus: 201,
    problems: anyPost,
  }),
  sessionHeartbeat: route({
    method: 'POST',
    path: '/sessions/{session_id}/heartbeat',
    summary: 'Report liveness and processor health; learn of drain and of cancelled claims.',
    token: 'session',
    request: messages.sessionHeartbeatRequest,
    response: messages.sessionHeartbeatResponse,
    successStatus: 200,
    problems: sessionPost,
  }),
  drainSession: route({
    method: 'POST',
    path: '/sessions/{session_id}/drain',
    summary: 'Take no new claims; running ones finish, heartbeats go on.',
    token: 'session',
    request: messages.drainRequest,
    response: messages.drainResponse,
    successStatus: 200,
    problems: sessionPost,
  }),
  acquire: route({
    method: 'POST',
    path: '/sessions/{session_id}/acquire',
    summary: 'Offer free permits for one processor and wait for claims. A lost answer is replayed by its key.',
    token: 'session',
    request: messages.acquireRequest,
    response: messages.acquireResponse,
    successStatus: 200,
    problems: sessionPost,
  }),
  claimHeartbeat: route({
    method: 'POST',
    path: '/claims/{claim_id}/heartbeat',
    summary: 'Renew the lease of a claim; learn of cancellation.',
    token: 'session',
    request: messages.claimHeartbeatRequest,
    response: messages.claimHeartbeatResponse,
    successStatus: 200,
    problems: claimPost,
  }),
  reportPhase: route({
    method: 'POST',
    path: '/claims/{claim_id}/phase',
    summary: 'Report what the attempt is doing, in the closed vocabulary.',
    token: 'session',
    request: messages.phaseRequest,
    response: messages.phaseResponse,
    successStatus: 200,
    problems: claimPost,
  }),
  stageResult: route({
    method: 'POST',
    path: '/claims/{claim_id}/staging',
    summary: 'Declare one result file; returns the ticket of its upload.',
    token: 'session',
    request: messages.stagingRequest,
    response: messages.stagingResponse,
    successStatus: 201,
    problems: [...claimPost, 'claim_cancelled'],
  }),
  completeClaim: route({
    method: 'POST',
    path: '/claims/{claim_id}/complete',
    summary: 'Deliver the staged result; ends the claim.',
    token: 'session',
    request: messages.completeRequest,
    response: messages.completeResponse,
    successStatus: 200,
    problems: [...claimPost, 'claim_cancelled', 'result_incomplete'],
  }),
  failClaim: route({
    method: 'POST',
    path: '/claims/{claim_id}/fail',
    summary: 'Report why the attempt failed; ends the claim. Core decides what follows.',
    token: 'session',
    request: messages.failRequest,
    response: messages.failResponse,
    successStatus: 200,
    problems: [...claimPost, 'result_incomplete'],
  }),
  releaseClaim: route({
    method: 'POST',
    path: '/claims/{claim_id}/release',
    summary: 'Hand an unfinished claim back, for example at shutdown.',
    token: 'session',
    request: messages.releaseRequest,
    response: messages.releaseResponse,
    successStatus: 200,
    problems: claimPost,
  }),
  download: route({
    method: 'GET',
    path: '/transfers/{ticket}',
    summary: "Stream an input's bytes.",
    token: 'session',
    request: null,
    response: 'bytes',
    successStatus: 200,
    problems: ['unauthorized', 'session_lost', 'ticket_invalid', 'claim_lost', 'database_unavailable', 'internal'],
  }),
  upload: route({
    method: 'PUT',
    path: '/transfers/{ticket}',
    summary: 'Stream exactly the declared bytes. Repeating an identical upload is fine.',
    token: 'session',
    request: 'bytes',
    response: messages.transferResponse,
    successStatus: 200,
    problems: [
      'unauthorized',
      'session_lost',
      'ticket_invalid',
      'claim_lost',
      'digest_mismatch',
      'length_mismatch',
      'database_unavailable',
      'internal',
    ],
  }),
} as const
