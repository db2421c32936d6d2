import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Platen } from './client.ts'
import {
  IdempotencyConflictError,
  NotFoundError,
  OperationUnavailableError,
  ProjectTypeMismatchError,
  QuotaExceededError,
  ServerError,
  UnauthenticatedError,
  ValidationError,
} from './errors.ts'
import { JobHandle } from './job-handle.ts'
import { Transport } from './transport.ts'
import type { Job } from './types.ts'

type Handler = (
  request: IncomingMessage & { body: { query: string; variables: Record<string, never> } },
  response: ServerResponse,
) => void

describe('the client', () => {
  let server: Server
  let url: string
  let handler: Handler
  const seen: { query: string; variables: { input?: { idempotencyKey?: string } } }[] = []
  beforeEach(async () => {
    seen.length = 0
    server = createServer(async (request, response) => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(chunk as Buffer)
      const body = JSON.parse(Buffer.concat(chunks).toString() || '{}')
      seen.push(body)
      handler(Object.assign(request, { body }), response)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as { port: number }).port}`
  })
  afterEach(() => {
    server.closeAllConnections()
    server.close()
  })
  const answer =
    (body: unknown, status = 200): Handler =>
    (_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
  const platen = () => new Platen({ url, token: 'pl_x' })
  const job = (version: string, state = 'RUNNING'): Job =>
    ({ id: '1', version, state, phase: state === 'RUNNING' ? 'PROCESSING' : null }) as Job

  const refusals: readonly (readonly [member: object, error: new (...args: never[]) => Error])[] = [
    [{ __typename: 'ValidationError', message: 'x', code: 'VALIDATION_FAILED', issues: [] }, ValidationError],
    [
      { __typename: 'QuotaExceededError', message: 'x', code: 'QUOTA_EXCEEDED', retryAfterSeconds: 7 },
      QuotaExceededError,
    ],
    [{ __typename: 'IdempotencyConflictError', message: 'x', code: 'IDEMPOTENCY_CONFLICT' }, IdempotencyConflictError],
    [
      { __typename: 'OperationUnavailableError', message: 'x', code: 'OPERATION_UNAVAILABLE' },
      OperationUnavailableError,
    ],
    [{ __typename: 'ProjectTypeMismatchError', message: 'x', code: 'PROJECT_TYPE_MISMATCH' }, ProjectTypeMismatchError],
  ]
  it.each(refusals)('throws what a result says: %j', async (result, error) => {
    handler = answer({ data: { result } })
    await expect(platen().build('1')).rejects.toBeInstanceOf(error)
  })

  it('throws by code where there is no result', async () => {
    handler = answer({ data: { project: null }, errors: [{ message: 'x', extensions: { code: 'NOT_FOUND' } }] })
    await expect(platen().project('1')).rejects.toBeInstanceOf(NotFoundError)
    handler = answer({ errors: [{ message: 'x', extensions: { code: 'UNAUTHENTICATED' } }] }, 401)
    await expect(platen().viewer()).rejects.toBeInstanceOf(UnauthenticatedError)
  })

  it('sends a submission again after its answer was lost, with the same key', async () => {
    handler = (request, response) => {
      if (seen.length === 1) return void request.socket.destroy()
      answer({ data: { result: { __typename: 'BuildProjectPayload', job: job('1') } } })(request, response)
    }
    const handle = await platen().build('1')
    expect(handle.id).toBe('1')
    const keys = seen.map((each) => each.variables.input?.idempotencyKey)
    expect(keys).toHaveLength(2)
    expect(keys[1]).toBe(keys[0])
  })

  it('does not send again what was refused', async () => {
    handler = answer({ data: { result: { __typename: 'ValidationError', message: 'x', issues: [] } } })
    await expect(platen().createProject('x', 'LATEX')).rejects.toBeInstanceOf(ValidationError)
    expect(seen).toHaveLength(1)
  })

  it('says where it looked when nothing answers', async () => {
    const nowhere = new Platen({ url: 'http://127.0.0.1:1', token: 'x' })
    await expect(nowhere.deleteFile('1', 'a')).rejects.toThrow('Platen at http://127.0.0.1:1 cannot be reached')
    handler = (_request, response) => void response.writeHead(200).end('<html>')
    await expect(platen().deleteFile('1', 'a')).rejects.toBeInstanceOf(ServerError)
  })

  it('stops when it is told to', async () => {
    handler = () => {}
    const abort = new AbortController()
    const asked = platen().viewer({ signal: abort.signal })
    abort.abort(new Error('enough'))
    await expect(asked).rejects.toThrow('enough')
  })

  describe('following a job', () => {
    const stream = (response: ServerResponse, jobs: readonly Job[], complete: boolean) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (const each of jobs) response.write(`event: next\r\ndata: ${JSON.stringify({ data: { job: each } })}\r\n\r\n`)
      if (complete) response.end(':\n\nevent: complete\ndata:\n\n')
      else response.write(':\n\n', () => response.destroy())
    }
    const states = async () => {
      const versions: string[] = []
      for await (const { version } of new JobHandle(job('1'), new Transport({ url, token: 'x' })).watch())
        versions.push(version)
      return versions
    }

    it('gives each newer state once, in any cut of the stream, and ends with the job', async () => {
      handler = (_request, response) => stream(response, [job('1'), job('2'), job('2'), job('5', 'SUCCEEDED')], true)
      expect(await states()).toEqual(['1', '2', '5'])
    })

    it('does not storm a server whose streams end too early', async () => {
      let streams = 0
      handler = (request, response) => {
        if (!request.body.query.startsWith('subscription'))
          return answer({ data: { job: job('9', 'FAILED') } })(request, response)
        streams += 1
        stream(response, [job('2')], true)
      }
      expect(await states()).toEqual(['2', '9'])
      expect(streams).toBe(1)
    })

    it('goes on after a lost connection, also where streams are always cut', async () => {
      handler = (request, response) => {
        if (request.body.query.startsWith('subscription')) return stream(response, [job('2')], false)
        answer({ data: { job: job('9', 'FAILED') } })(request, response)
      }
      expect(await states()).toEqual(['2', '9'])
    })
  })
})
