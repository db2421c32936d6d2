import { createHash, randomUUID } from 'node:crypto'
import type { Claim } from '@platen/worker/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ApiClient } from '../support/platen/api-client.ts'
import { startTestApp, type TestApp } from '../support/platen/app.ts'
import { smallPdf, type WorkerClient } from '../support/platen/worker-client.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

interface Held {
  readonly user: ApiClient
  readonly worker: WorkerClient
  readonly jobId: string
  readonly claim: Claim
}

describe('the worker protocol', () => {
  let platen: TestApp
  beforeAll(async () => {
    platen = await startTestApp({ bounds: { output_bytes: 100_000 } })
  })
  afterAll(() => platen[Symbol.asyncDispose]())

  /** A job that a session of its own holds. */
  async function held(): Promise<Held> {
    const user = await platen.newUser()
    const worker = platen.newWorker()
    await worker.open()
    const { job } = await user.build(await user.newProject(article))
    return { user, worker, jobId: job.id, claim: await worker.claim() }
  }

  describe('sessions', () => {
    it('refuses a token that is not of the deployment, in a problem document', async () => {
      const answer = await platen.newWorker().open({ token: `plw_local.${'x'.repeat(43)}` })
      expect(answer).toMatchObject({
        status: 401,
        body: { code: 'unauthorized', status: 401, type: 'urn:platen:problem:unauthorized' },
      })
      expect(answer.headers.get('content-type')).toContain('application/problem+json')
    })

    it('refuses an API token', async () => {
      const user = await platen.newUser()
      expect(await platen.newWorker().open({ token: user.token })).toMatchObject({ status: 401 })
    })

    it('refuses an operation that the identity was not given', async () => {
      const worker = platen.newWorker()
      const processor = {
        operation: 'typst.export.pptx/v1',
        name: 't',
        version: '1',
        contract: 'c'.repeat(64),
        slots: 1,
        facts: {},
      }
      const body = { instance_id: randomUUID(), executor: 'bubblewrap', processors: [processor] }
      const answer = await worker.post('/sessions', body, { token: `plw_local.${'w'.repeat(43)}` })
      expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } })
    })

    it('replays a lost answer with the same session and token', async () => {
      const worker = platen.newWorker()
      const call = { instanceId: randomUUID(), key: randomUUID() }
      const [first, second] = [await worker.open(call), await worker.open(call)]
      expect(second.body).toEqual(first.body)
      expect(await worker.acquire({ wait: 0.01 })).toMatchObject({ status: 200 })
    })

    it('ends the old session when the same process opens a new one, and its claims with it', async () => {
      const user = await platen.newUser()
      const instanceId = randomUUID()
      const [old, renewed] = [platen.newWorker(), platen.newWorker()]
      await old.open({ instanceId })
      const { job } = await user.build(await user.newProject(article))
      const claim = await old.claim()
      await renewed.open({ instanceId })
      expect(await old.of(claim, 'heartbeat')).toMatchObject({ status: 401, body: { code: 'session_lost' } })
      const again = await renewed.claim()
      expect(again.attempt).toBe(2)
      await renewed.deliver(again)
      expect(await user.finished(job.id)).toMatchObject({ state: 'SUCCEEDED', attempt: 2 })
    })

    it('is one when the same process registers twice at once', async () => {
      const instanceId = randomUUID()
      const workers = Array.from({ length: 4 }, () => platen.newWorker())
      const answers = await Promise.all(workers.map((worker) => worker.open({ instanceId })))
      expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 201])
      const open = await platen.query('SELECT id FROM processing.session WHERE instance_id = $1 AND ended_at IS NULL', [
        instanceId,
      ])
      expect(open).toHaveLength(1)
    })

    it('gives no claims for a processor that is reported unhealthy, until it is well again', async () => {
      const user = await platen.newUser()
      const worker = platen.newWorker()
      await worker.open()
      const report = (healthy: boolean) =>
        worker.post(`/sessions/${worker.sessionId}/heartbeat`, {
          processors: [{ operation: 'latex.compile.pdf/v1', healthy, reason: healthy ? null : 'latexmk is gone' }],
        })
      await report(false)
      const { job } = await user.build(await user.newProject(article))
      expect((await worker.acquire({ wait: 0.2 })).body.claims).toEqual([])
      const waiting = worker.acquire({ wait: 20 })
      await report(true)
      expect((await waiting).body.claims).toHaveLength(1)
      await user.cancel(job.id)
    })

    it('gives no new claims to a session that drains, and lets it finish what it has', async () => {
      const { user, worker, jobId, claim } = await held()
      expect(await worker.post(`/sessions/${worker.sessionId}/drain`, {})).toMatchObject({
        status: 200,
        body: { draining: true },
      })
      const { job } = await user.build(await user.newProject(article))
      expect((await worker.acquire({ wait: 0.2 })).body.claims).toEqual([])
      expect(await worker.deliver(claim)).toMatchObject({ status: 200 })
      expect(await user.finished(jobId)).toMatchObject({ state: 'SUCCEEDED' })
      await user.cancel(job.id)
    })
  })

  describe('idempotency keys', () => {
    it('are demanded of every mutating call', async () => {
      const { worker, claim } = await held()
      const answer = await worker.post(`/claims/${claim.claim_id}/phase`, { phase: 'processing' }, { key: null })
      expect(answer).toMatchObject({ status: 400, body: { code: 'idempotency_key_missing' } })
    })

    it('give the same claims again, with tickets that work', async () => {
      const user = await platen.newUser()
      const worker = platen.newWorker()
      await worker.open()
      await user.build(await user.newProject(article))
      const key = randomUUID()
      const first = await worker.acquire({ key })
      const second = await worker.acquire({ key })
      const ids = (answer: typeof first) => answer.body.claims.map((claim: Claim) => claim.claim_id)
      expect(ids(second)).toEqual(ids(first))
      expect(ids(first)).toHaveLength(1)
      expect((await worker.get(second.body.claims[0].input.ticket)).status).toBe(200)
      await worker.deliver(first.body.claims[0])
    })

    it('refuse a changed payload', async () => {
      const { worker, claim } = await held()
      const key = randomUUID()
      expect(await worker.of(claim, 'phase', { phase: 'processing' }, key)).toMatchObject({ status: 200 })
      expect(await worker.of(claim, 'phase', { phase: 'uploading_result' }, key)).toMatchObject({
        status: 422,
        body: { code: 'idempotency_key_reused' },
      })
    })

    it('let a completion be repeated after its answer was lost', async () => {
      const { user, worker, jobId, claim } = await held()
      await worker.stage(claim, 'pdf', smallPdf)
      const key = randomUUID()
      const complete = () => worker.of(claim, 'complete', { roles: ['pdf'], diagnostics: [] }, key)
      expect(await complete()).toMatchObject({ status: 200, body: { state: 'finalizing' } })
      expect(await complete()).toMatchObject({ status: 200, body: { state: 'finalizing' } })
      expect((await user.finished(jobId)).artifacts).toHaveLength(1)
    })

    it('give one effect to duplicates that are sent at once', async () => {
      const { worker, claim } = await held()
      await worker.stage(claim, 'pdf', smallPdf)
      const key = randomUUID()
      const answers = await Promise.all(
        Array.from({ length: 6 }, () => worker.of(claim, 'complete', { roles: ['pdf'], diagnostics: [] }, key)),
      )
      for (const answer of answers) expect([200, 409]).toContain(answer.status)
      expect(answers.some((answer) => answer.status === 200)).toBe(true)
      for (const { status, body } of answers) if (status === 409) expect(body.code).toBe('idempotency_key_in_use')
    })
  })

  describe('input', () => {
    it('is the archive whose length and digest the claim names', async () => {
      const { worker, claim } = await held()
      const response = await worker.get(claim.input.ticket)
      const bytes = Buffer.from(await response.arrayBuffer())
      expect(bytes.length).toBe(claim.input.byte_length)
      expect(sha256(bytes)).toBe(claim.input.sha256)
      expect(bytes.subarray(0, 13).toString()).toBe('manifest.json')
    })

    it('is byte-identical for identical projects', async () => {
      const user = await platen.newUser()
      const files = { 'b.tex': 'two', 'a.tex': 'one', 'main.tex': article['main.tex'] }
      const worker = platen.newWorker()
      await worker.open({ slots: 4 })
      await user.build(await user.newProject(files))
      await user.build(await user.newProject(files))
      const [one, two] = [await worker.claim(), await worker.claim()]
      expect(two.input.sha256).toBe(one.input.sha256)
      expect(two.input.input_digest).toBe(one.input.input_digest)
    })

    it('goes only to the session that holds the claim', async () => {
      const { claim } = await held()
      const other = platen.newWorker()
      await other.open()
      expect((await other.get(claim.input.ticket)).status).toBe(409)
    })

    it('does not open with a forged, cut or foreign ticket', async () => {
      const { worker, claim } = await held()
      const { ticket } = claim.input
      const declared = await worker.declare(claim, 'log', Buffer.from('x'))
      for (const wrong of [`${ticket}x`, ticket.slice(0, -5), ticket.replace(/\.[^.]+$/, ''), declared.body.ticket]) {
        const response = await worker.get(wrong)
        expect(response.status).toBe(404)
        expect((await response.json()).code).toBe('ticket_invalid')
      }
    })
  })

  describe('results', () => {
    const log = Buffer.from('This is the log.')

    it('are refused with another digest, and can be sent again', async () => {
      const { worker, claim } = await held()
      const { body } = await worker.declare(claim, 'log', log)
      expect(await worker.put(body.ticket, Buffer.from('This is the LOG.'))).toMatchObject({
        status: 422,
        body: { code: 'digest_mismatch' },
      })
      expect(await worker.put(body.ticket, log)).toMatchObject({
        status: 200,
        body: { sha256: sha256(log), byte_length: log.length },
      })
    })

    it('are refused when they are shorter or longer than declared', async () => {
      const { worker, claim } = await held()
      const { body } = await worker.declare(claim, 'log', log)
      for (const wrong of [log.subarray(0, 5), Buffer.concat([log, log])]) {
        expect(await worker.put(body.ticket, wrong)).toMatchObject({ status: 400, body: { code: 'length_mismatch' } })
      }
    })

    it('may be sent twice when they are the same', async () => {
      const { worker, claim } = await held()
      const { body } = await worker.declare(claim, 'log', log)
      expect((await worker.put(body.ticket, log)).status).toBe(200)
      expect((await worker.put(body.ticket, log)).status).toBe(200)
    })

    it('are dropped when their claim ended while they came', async () => {
      const { worker, claim, user, jobId } = await held()
      const { body } = await worker.declare(claim, 'log', log)
      const half = Promise.withResolvers<void>()
      const ended = Promise.withResolvers<void>()
      async function* slowly() {
        yield log.subarray(0, 5)
        half.resolve()
        await ended.promise
        yield log.subarray(5)
      }
      const upload = worker.send(body.ticket, slowly())
      await half.promise
      await worker.of(claim, 'release', { reason: 'shutdown' })
      ended.resolve()
      expect(await upload).toMatchObject({ status: 409, body: { code: 'claim_lost' } })
      const holders = await platen.query('SELECT holder FROM blob.reference WHERE holder = $1', [
        `staging:${claim.claim_id}`,
      ])
      expect(holders).toEqual([])
      await user.cancel(jobId)
    })

    it('are only what the operation declares', async () => {
      const { worker, claim } = await held()
      expect(await worker.declare(claim, 'pptx', log, { media_type: 'application/zip' })).toMatchObject({
        status: 400,
        body: { code: 'invalid_request' },
      })
      expect(await worker.declare(claim, 'pdf', log, { media_type: 'text/html' })).toMatchObject({
        status: 400,
        body: { code: 'invalid_request' },
      })
      expect(await worker.declare(claim, 'log', log, { byte_length: 100_001 })).toMatchObject({
        status: 413,
        body: { code: 'payload_too_large' },
      })
    })

    it('are not accepted without the document, or before it was uploaded', async () => {
      const { worker, claim } = await held()
      await worker.stage(claim, 'log', log)
      const complete = (roles: string[]) => worker.of(claim, 'complete', { roles, diagnostics: [] })
      expect(await complete(['log'])).toMatchObject({ status: 422, body: { code: 'result_incomplete' } })
      await worker.declare(claim, 'pdf', smallPdf)
      expect(await complete(['pdf', 'log'])).toMatchObject({ status: 422, body: { code: 'result_incomplete' } })
      await worker.stage(claim, 'pdf', smallPdf)
      expect(await complete(['pdf', 'log'])).toMatchObject({ status: 200 })
    })

    it('fail the job when they are not what they say', async () => {
      const { user, worker, jobId, claim } = await held()
      await worker.deliver(claim, Buffer.from('%PDF-1.7 and then nothing of a PDF'))
      expect(await user.finished(jobId)).toMatchObject({
        state: 'FAILED',
        failure: { class: 'CONTRACT_VIOLATION' },
        artifacts: [],
      })
    })
  })

  describe('claims', () => {
    it('are refused to another session, without effect', async () => {
      const { worker, claim, user, jobId } = await held()
      const thief = platen.newWorker()
      await thief.open()
      for (const [call, body] of [
        ['heartbeat', {}],
        ['phase', { phase: 'processing' }],
        ['release', { reason: 'mine' }],
        ['complete', { roles: ['pdf'], diagnostics: [] }],
      ] as const) {
        expect(await thief.of(claim, call, body)).toMatchObject({ status: 409, body: { code: 'claim_lost' } })
      }
      expect(await thief.fail(claim, 'processor_rejected')).toMatchObject({ status: 409 })
      expect(await user.job(jobId)).toMatchObject({ state: 'RUNNING' })
      await worker.deliver(claim)
    })

    it('are over when they ended', async () => {
      const { worker, claim } = await held()
      await worker.deliver(claim)
      expect(await worker.of(claim, 'heartbeat')).toMatchObject({ status: 409, body: { code: 'claim_lost' } })
      expect(await worker.fail(claim, 'processor_rejected')).toMatchObject({
        status: 409,
        body: { code: 'claim_lost' },
      })
    })

    it('take only the phases a worker may report', async () => {
      const { worker, claim } = await held()
      for (const phase of ['publishing_result', '50%', null]) {
        expect(await worker.of(claim, 'phase', { phase })).toMatchObject({
          status: 400,
          body: { code: 'invalid_request' },
        })
      }
    })

    it('end a job with the class, limit, diagnostics and log that the worker reports', async () => {
      const { user, worker, jobId, claim } = await held()
      await worker.stage(claim, 'log', Buffer.from('the log'))
      const diagnostics = [
        {
          severity: 'error',
          file: 'main.tex',
          line: 3,
          message: 'Undefined control sequence',
          context: null,
          hint: null,
        },
      ]
      const more = { limit: { name: 'wall_seconds', value: 5 }, diagnostics, roles: ['log'] }
      expect(await worker.fail(claim, 'resource_limit', more)).toMatchObject({ status: 200, body: { state: 'failed' } })
      const job = await user.job(jobId)
      expect(job).toMatchObject({
        state: 'FAILED',
        failure: { class: 'RESOURCE_LIMIT', limit: { name: 'wall_seconds', value: 5 } },
        diagnostics: [{ severity: 'ERROR', file: 'main.tex', line: 3 }],
        artifacts: [{ role: 'LOG' }],
      })
    })

    it('come back after a release, as another attempt', async () => {
      const { worker, claim } = await held()
      expect(await worker.of(claim, 'release', { reason: 'shutdown' })).toMatchObject({
        status: 200,
        body: { state: 'queued' },
      })
      const again = await worker.claim()
      expect(again).toMatchObject({ job_id: claim.job_id, attempt: 2 })
      await worker.deliver(again)
    })

    it('are not more than the slots of the session', async () => {
      const [anna, ben] = [await platen.newUser(), await platen.newUser()]
      const worker = platen.newWorker()
      await worker.open({ slots: 2 })
      for (const user of [anna, ben]) {
        await user.build(await user.newProject(article))
        await user.build(await user.newProject(article))
      }
      const { body } = await worker.acquire({ permits: 10 })
      expect(body.claims).toHaveLength(2)
      expect((await worker.acquire({ permits: 10, wait: 0.2 })).body.claims).toEqual([])
      for (const claim of body.claims) await worker.deliver(claim)
      const rest = await worker.acquire({ permits: 10 })
      expect(rest.body.claims).toHaveLength(2)
      for (const claim of rest.body.claims) await worker.deliver(claim)
    })
  })
})
