import { randomUUID } from 'node:crypto'
import { type Claim, problem, problemStatuses, protocolBase, routes } from '@platen/worker/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { z } from 'zod'
import type { ApiClient } from '../support/platen/api-client.ts'
import { startTestApp, type TestApp } from '../support/platen/app.ts'
import { Bodies } from '../support/platen/fuzz.ts'
import { smallPdf, type WorkerClient } from '../support/platen/worker-client.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }
const seed = Number(process.env.PLATEN_FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31))
const messages = 10_000
const batch = 500
const atOnce = 16

interface Message {
  readonly kind: string
  readonly method: 'POST' | 'GET' | 'PUT'
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array<ArrayBuffer> | undefined
}

function randomOf(state: number): () => number {
  let at = state
  return () => {
    at = (Math.imul(at, 1_664_525) + 1_013_904_223) >>> 0
    return at / 2 ** 32
  }
}

/** Whatever is sent that must be refused is refused in words of the protocol, and leaves everything as it was. */
describe(`the worker protocol, fuzzed (PLATEN_FUZZ_SEED=${seed})`, () => {
  let platen: TestApp
  let user: ApiClient
  let holder: WorkerClient
  let stranger: WorkerClient
  let ended: WorkerClient
  let live: Claim
  let over: Claim[]
  let uploadTicket: string
  const usedKey = randomUUID()
  const random = randomOf(seed)
  const bodies = new Bodies(random)

  beforeAll(async () => {
    platen = await startTestApp({
      limits: { reaper_seconds: 3600, sweep_seconds: 3600, lease_seconds: 3600, active_per_requester: 20 },
    })
    user = await platen.newUser()
    ;[holder, stranger, ended] = [platen.newWorker(), platen.newWorker(), platen.newWorker()]
    await holder.open({ slots: 10 })
    await stranger.open()
    const instanceId = randomUUID()
    await ended.open({ instanceId })
    await platen.newWorker().open({ instanceId })
    for (let index = 0; index < 4; index += 1) {
      const { job } = await user.build(await user.newProject(article))
      await user.until(job.id, ({ state }) => state === 'QUEUED')
    }
    const { body } = await holder.acquire({ permits: 4 })
    ;[live, ...over] = body.claims
    const [delivered, failed, released] = over as [Claim, Claim, Claim]
    await holder.deliver(delivered)
    await holder.fail(failed, 'processor_rejected')
    await holder.of(released, 'release', { reason: 'test' })
    const [state] = [await user.job(Buffer.from(`Job:${delivered.job_id}`).toString('base64url'))]
    await user.finished(state.id)
    await holder.of(live, 'phase', { phase: 'processing' }, usedKey)
    uploadTicket = (await holder.declare(live, 'pdf', smallPdf)).body.ticket
  })
  afterAll(() => platen[Symbol.asyncDispose]())

  const posts = Object.entries(routes).filter(([, route]) => route.method === 'POST')
  const pathOf = (path: string, session: string, claim: string) =>
    protocolBase + path.replace('{session_id}', session).replace('{claim_id}', claim)
  const forged = (token: string) => `${token.slice(0, -4)}${token.endsWith('AAAA') ? 'BBBB' : 'AAAA'}`
  const workerToken = `plw_local.${'w'.repeat(43)}`

  /** One message that must be refused, of any kind. */
  function message(): Message {
    const [name, route] = bodies.pick(posts)
    const schema = route.request as z.ZodType
    const ofClaim = route.path.includes('{claim_id}')
    const token = route.token === 'worker' ? workerToken : holder.sessionToken
    const post = (
      kind: string,
      more: { token?: string; path?: string; key?: string | null; body?: string; type?: string },
    ) => {
      const { key = randomUUID(), body = JSON.stringify(bodies.valid(schema)), type = 'application/json' } = more
      return {
        kind: `${kind}: ${name}`,
        method: 'POST' as const,
        path: more.path ?? pathOf(route.path, holder.sessionId, live.claim_id),
        headers: {
          'content-type': type,
          authorization: `Bearer ${more.token ?? token}`,
          ...(key === null ? {} : { 'idempotency-key': key }),
        },
        body,
      }
    }
    const stale = () =>
      bodies.pick([
        ...over.map((claim) => pathOf(route.path, holder.sessionId, claim.claim_id)),
        pathOf(route.path, holder.sessionId, randomUUID()),
        pathOf(route.path, holder.sessionId, 'not-an-id'),
      ])
    const transfer = (): Message => {
      const read = live.input.ticket
      const put = { method: 'PUT' as const, body: new Uint8Array(smallPdf) }
      const get = { method: 'GET' as const, body: undefined }
      const headers = (token: string) => ({
        authorization: `Bearer ${token}`,
        'content-type': 'application/octet-stream',
      })
      const wrong = bodies.pick([`${read.slice(0, -6)}AAAAAA`, read.slice(0, 60), `${protocolBase}/transfers/x.y`])
      return bodies.pick<Message>([
        { kind: 'forged ticket', ...get, path: wrong, headers: headers(holder.sessionToken) },
        { kind: 'forged ticket', ...put, path: wrong, headers: headers(holder.sessionToken) },
        { kind: 'ticket of the other kind', ...get, path: uploadTicket, headers: headers(holder.sessionToken) },
        { kind: 'ticket of the other kind', ...put, path: read, headers: headers(holder.sessionToken) },
        { kind: 'ticket of another', ...get, path: read, headers: headers(stranger.sessionToken) },
        { kind: 'ticket of another', ...put, path: uploadTicket, headers: headers(stranger.sessionToken) },
        {
          kind: 'bytes cut',
          method: 'PUT',
          body: new Uint8Array(smallPdf.subarray(0, 9)),
          path: uploadTicket,
          headers: headers(holder.sessionToken),
        },
        {
          kind: 'bytes added',
          method: 'PUT',
          body: new Uint8Array(Buffer.concat([smallPdf, smallPdf])),
          path: uploadTicket,
          headers: headers(holder.sessionToken),
        },
        {
          kind: 'other bytes',
          method: 'PUT',
          body: new Uint8Array(smallPdf.length),
          path: uploadTicket,
          headers: headers(holder.sessionToken),
        },
        { kind: 'no session', ...get, path: read, headers: headers(forged(holder.sessionToken)) },
      ])
    }
    const wrongToken = () =>
      bodies.pick([
        '',
        'x',
        user.token,
        forged(token),
        `${token}x`,
        ended.sessionToken,
        route.token === 'worker' ? holder.sessionToken : workerToken,
      ])
    const garbage = () =>
      bodies.pick([
        '',
        '{',
        '[1,2',
        'null',
        '"text"',
        '{"a":'.repeat(500),
        `${JSON.stringify(bodies.valid(schema))}}`,
        '\u0000',
        '{"phase":"processing","phase":1}',
      ])
    return bodies.pick<() => Message>([
      () => post('invalid body', { body: JSON.stringify(bodies.invalid(schema)) }),
      () => post('invalid body', { body: JSON.stringify(bodies.invalid(schema)) }),
      () => post('garbage', { body: garbage() }),
      () => post('content type', { type: bodies.pick(['text/plain', 'application/xml', 'multipart/form-data']) }),
      () => post('wrong token', { token: wrongToken() }),
      () => post('odd key', { key: bodies.pick([null, '', ' ', 'k'.repeat(201), 'a b', 'ä'.repeat(3)]) }),
      ofClaim ? () => post('stale claim', { path: stale() }) : () => post('wrong token', { token: wrongToken() }),
      route.path.includes('{session_id}')
        ? () =>
            post("another's session", {
              path: pathOf(route.path, bodies.pick([stranger.sessionId, randomUUID(), 'x']), ''),
            })
        : () => post('wrong token', { token: wrongToken() }),
      ofClaim
        ? () => post("another's claim", { token: stranger.sessionToken })
        : () =>
            post('no such call', {
              path: `${protocolBase}/${bodies.pick(['sessions/x/y/z', 'claims', '..%2f..', 'jobs'])}`,
            }),
      () => ({
        ...post('used key, other payload', {
          key: usedKey,
          body: '{"phase":"uploading_result"}',
          token: holder.sessionToken,
        }),
        path: pathOf('/claims/{claim_id}/phase', '', live.claim_id),
      }),
      () => ({
        ...post('delivery before its files', {
          token: holder.sessionToken,
          body: '{"roles":["pdf"],"diagnostics":[]}',
        }),
        path: pathOf('/claims/{claim_id}/complete', '', live.claim_id),
      }),
      transfer,
      transfer,
    ])()
  }

  /** All rows but the times at which somebody was last heard of. */
  async function fingerprint(): Promise<string> {
    const tables = await platen.query(
      `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
       WHERE schemaname IN ('processing', 'blob', 'workspace', 'collaboration', 'access') ORDER BY 1`,
    )
    const parts = tables.map(
      ({ name }) =>
        `(SELECT md5(coalesce(string_agg(row, '|' ORDER BY row), '')) FROM
          (SELECT (to_jsonb(t) - ARRAY['heard_at', 'last_used_at', 'touched_at'])::text AS row FROM ${name} t) r)`,
    )
    return JSON.stringify(await platen.query(`SELECT ${parts.map((part, index) => `${part} AS t${index}`).join(', ')}`))
  }

  async function send({ method, path, headers, body }: Message): Promise<string | null> {
    let response: Response
    try {
      response = await fetch(new URL(path, platen.url), { method, headers, ...(body === undefined ? {} : { body }) })
    } catch (error) {
      // A header that no HTTP client sends never comes to Core.
      if (error instanceof TypeError && /header|ByteString/i.test(String(error.message))) return null
      // A body that is refused before it was read may cut its connection.
      if (method === 'PUT') return null
      throw error
    }
    const text = await response.text()
    const parsed = problem.safeParse(JSON.parse(text))
    if (!parsed.success) return `${response.status} ${text.slice(0, 300)}`
    const right =
      response.headers.get('content-type')?.startsWith('application/problem+json') &&
      response.status < 500 &&
      response.status === problemStatuses[parsed.data.code] &&
      response.status === parsed.data.status
    return right ? null : `${response.status} ${text}`
  }

  it(`answers ${messages} messages with a problem, and nothing changes`, { timeout: 180_000 }, async () => {
    const sent = new Map<string, number>()
    for (let from = 0; from < messages; from += batch) {
      const before = await fingerprint()
      const queue = Array.from({ length: batch }, message)
      const wrong: unknown[] = []
      const work = async () => {
        for (let next = queue.pop(); next; next = queue.pop()) {
          const complaint = await send(next)
          const kind = next.kind.split(':')[0] as string
          sent.set(kind, (sent.get(kind) ?? 0) + 1)
          if (complaint !== null) wrong.push({ ...next, complaint })
        }
      }
      await Promise.all(Array.from({ length: atOnce }, work))
      expect(wrong.slice(0, 5)).toEqual([])
      expect(await fingerprint()).toBe(before)
    }
    expect([...sent.values()].reduce((sum, count) => sum + count, 0)).toBe(messages)
    expect(Math.min(...sent.values())).toBeGreaterThan(20)
    // It all still works.
    await holder.stage(live, 'pdf', smallPdf)
    expect(await holder.of(live, 'complete', { roles: ['pdf'], diagnostics: [] })).toMatchObject({ status: 200 })
  })
})
