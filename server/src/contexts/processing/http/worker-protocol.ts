import { Readable } from 'node:stream'
import { type ProblemCode, problemStatuses, protocolBase, type Route, routes } from '@platen/worker/protocol'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { isDatabaseDown } from '../../../platform/database.ts'
import type { Worker } from '../../distribution/index.ts'
import { type Processing, type Session, type WorkerCall, WorkerRefusal } from '../index.ts'

/** A request body holds at most a bounded list of diagnostics. */
const bodyBytes = 8 * 1024 * 1024

type RouteName = keyof typeof routes
type JsonRoute = Exclude<RouteName, 'download' | 'upload'>
type Of<N extends RouteName, Part extends 'request' | 'response'> = (typeof routes)[N][Part] extends z.ZodType
  ? z.infer<(typeof routes)[N][Part]>
  : never

interface Call<N extends RouteName> {
  /** The caller's session; of `openSession`, none. */
  readonly session: Session
  readonly worker: Worker
  readonly claimId: string
  readonly body: Of<N, 'request'>
  readonly call: WorkerCall
  readonly signal: AbortSignal
}
type Handlers = { readonly [N in JsonRoute]: (call: Call<N>) => Promise<Of<N, 'response'>> }

/** Mounts the worker protocol: the table of routes gives paths, bodies and tokens, this file only what each does. */
export function mountWorkerProtocol(server: FastifyInstance, processing: Processing, shutdown: AbortSignal): void {
  const { attempts, sessions } = processing
  const handlers: Handlers = {
    openSession: ({ worker, body, call }) => sessions.open(worker, body, call),
    sessionHeartbeat: ({ session, body, signal }) => sessions.heartbeat(session, body, signal),
    drainSession: ({ session }) => sessions.drain(session),
    acquire: ({ session, body, call, signal }) => processing.acquire(session, body, call, signal),
    claimHeartbeat: ({ session, claimId }) => attempts.heartbeat(session, claimId),
    reportPhase: ({ session, claimId, body, call }) => attempts.reportPhase(session, claimId, body, call),
    stageResult: ({ session, claimId, body, call }) => attempts.stage(session, claimId, body, call),
    completeClaim: ({ session, claimId, body, call }) => attempts.complete(session, claimId, body, call),
    failClaim: ({ session, claimId, body, call }) => attempts.fail(session, claimId, body, call),
    releaseClaim: ({ session, claimId, body, call }) => attempts.release(session, claimId, body.reason, call),
  }

  server.register(async (protocol) => {
    protocol.setErrorHandler<FastifyError>((error, request, reply) => refuse(error, request, reply))
    protocol.setNotFoundHandler((request, reply) =>
      refuse(new WorkerRefusal('not_found', 'The worker protocol has no such call.'), request, reply),
    )

    for (const name of Object.keys(handlers) as JsonRoute[]) {
      const route: Route = routes[name]
      protocol.route({
        method: route.method,
        url: protocolBase + route.path.replaceAll(/\{(\w+)\}/g, ':$1'),
        bodyLimit: bodyBytes,
        handler: async (request, reply) => {
          const handle = handlers[name] as (call: Call<RouteName>) => Promise<unknown>
          reply.status(route.successStatus)
          return handle(await callOf(name, route, request, reply))
        },
      })
    }

    protocol.register(async (transfers) => {
      transfers.removeAllContentTypeParsers()
      // The handler reads the bytes itself, as they come.
      transfers.addContentTypeParser('*', (_request, _payload, done) => done(null))
      const url = `${protocolBase}${routes.download.path.replace('{ticket}', ':ticket')}`
      transfers.get<{ Params: { ticket: string } }>(url, async (request, reply) => {
        const { byteLength, bytes } = await attempts.input(await sessionOf(request), ticketOf(request))
        return reply
          .headers({
            'content-type': 'application/octet-stream',
            'content-length': byteLength,
            'cache-control': 'no-store',
          })
          .send(Readable.from(bytes))
      })
      transfers.put<{ Params: { ticket: string } }>(url, async (request, reply) => {
        const stored = await attempts.upload(await sessionOf(request), ticketOf(request), request.raw)
        return reply.send({ sha256: stored.sha256, byte_length: stored.byteLength })
      })
    })
  })

  async function callOf(
    name: JsonRoute,
    route: Route,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<Call<RouteName>> {
    const parameters = request.params as { session_id?: string; claim_id?: string }
    const worker = route.token === 'worker' ? workerOf(request) : null
    const session = route.token === 'session' ? await sessionOf(request) : null
    if (parameters.session_id !== undefined && parameters.session_id !== session?.id) {
      throw new WorkerRefusal('not_found', 'This session is not the one the token belongs to.')
    }
    const body = parse(route.request as z.ZodType, request.body) as { instance_id?: string }
    const claimId = parameters.claim_id === undefined ? '' : (parse(z.uuid(), parameters.claim_id) as string)
    const key = keyOf(request)
    const gone = new AbortController()
    reply.raw.once('close', () => gone.abort())
    return {
      session: session as Session,
      worker: worker as Worker,
      claimId,
      body: body as never,
      signal: AbortSignal.any([gone.signal, shutdown]),
      call: {
        scope: session?.id ?? (body.instance_id as string),
        route: session ? `${name} ${claimId}` : `${name} ${worker?.name}`,
        key,
        body,
      },
    }
  }

  function workerOf(request: FastifyRequest): Worker {
    const worker = sessions.identify(bearer(request))
    if (!worker)
      throw new WorkerRefusal(
        'unauthorized',
        'This is not the token of a worker of this deployment. Check PLATEN_WORKER_TOKEN and token_sha256 in the deployment file.',
      )
    return worker
  }

  async function sessionOf(request: FastifyRequest): Promise<Session> {
    const token = bearer(request)
    const session = await sessions.authenticate(token)
    if (session) return session
    if (token.startsWith('pws_')) throw new WorkerRefusal('session_lost', 'This session is over. Open another.')
    throw new WorkerRefusal('unauthorized', 'This call takes a session token.')
  }
}

const bearer = (request: FastifyRequest): string =>
  /^Bearer (\S+)$/.exec(request.headers.authorization ?? '')?.[1] ?? ''
const ticketOf = (request: FastifyRequest<{ Params: { ticket: string } }>): string => request.params.ticket

function keyOf(request: FastifyRequest): string {
  const key = request.headers['idempotency-key']
  if (typeof key === 'string' && /^[\x21-\x7e]{1,200}$/.test(key)) return key
  throw new WorkerRefusal('idempotency_key_missing', 'Send an Idempotency-Key of 1 to 200 visible ASCII characters.')
}

function parse(schema: z.ZodType, value: unknown): unknown {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new WorkerRefusal('invalid_request', z.prettifyError(parsed.error).slice(0, 1000))
}

function refuse(error: FastifyError | WorkerRefusal, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const refusal = asRefusal(error)
  if (refusal.code === 'internal') request.log.error({ err: error }, 'a worker call failed')
  else request.log.info({ code: refusal.code, detail: refusal.message }, 'a worker call was refused')
  const status = problemStatuses[refusal.code]
  if (refusal.retryAfterSeconds !== null) reply.header('retry-after', refusal.retryAfterSeconds)
  // What the caller still sends is not worth reading.
  if (request.method === 'PUT') reply.header('connection', 'close')
  return reply
    .status(status)
    .type('application/problem+json')
    .send({
      type: `urn:platen:problem:${refusal.code}`,
      title: titles[refusal.code],
      status,
      detail: refusal.message,
      code: refusal.code,
    })
}

function asRefusal(error: FastifyError | WorkerRefusal): WorkerRefusal {
  if (error instanceof WorkerRefusal) return error
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE')
    return new WorkerRefusal('payload_too_large', 'The request is too large.')
  if (error.statusCode !== undefined && error.statusCode < 500)
    return new WorkerRefusal('invalid_request', error.message)
  if (error.code === 'ECONNRESET' || error.code === 'ERR_STREAM_PREMATURE_CLOSE') {
    return new WorkerRefusal('length_mismatch', 'The connection ended before all bytes had come.')
  }
  if (isDatabaseDown(error)) {
    return new WorkerRefusal('database_unavailable', 'The database does not run. Repeat the call with the same key.', 1)
  }
  return new WorkerRefusal('internal', `The call failed and had no effect. Repeat it with the same key.`)
}

const titles: Readonly<Record<ProblemCode, string>> = {
  unauthorized: 'Not authenticated',
  not_found: 'Not found',
  invalid_request: 'Invalid request',
  idempotency_key_missing: 'Idempotency key missing',
  idempotency_key_in_use: 'Request in progress',
  idempotency_key_reused: 'Idempotency key reused',
  session_lost: 'Session lost',
  claim_lost: 'Claim lost',
  claim_cancelled: 'Claim cancelled',
  ticket_invalid: 'Ticket invalid',
  digest_mismatch: 'Digest mismatch',
  length_mismatch: 'Length mismatch',
  result_incomplete: 'Result incomplete',
  payload_too_large: 'Payload too large',
  database_unavailable: 'Database unavailable',
  internal: 'Internal error',
}
