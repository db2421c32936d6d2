import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startTestApp, type TestApp } from '../support/platen/app.ts'
import { smallPdf } from '../support/platen/worker-client.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }

/** What a worker may rely on when it does not know whether its call had an effect. */
describe('a call that is repeated', () => {
  let platen: TestApp
  /** What happens at a failpoint, by name. */
  const faults = new Map<string, () => Promise<void>>()
  beforeAll(async () => {
    platen = await startTestApp({ core: { failpoints: { hit: (name) => faults.get(name)?.() } } })
  })
  beforeEach(() => faults.clear())
  afterAll(() => platen[Symbol.asyncDispose]())

  /** Fails once. */
  const failAt = (name: string) =>
    faults.set(name, async () => {
      faults.delete(name)
      throw new Error('the database had a bad moment')
    })
  const held = async () => {
    const user = await platen.newUser()
    const worker = platen.newWorker()
    await worker.open()
    const { job } = await user.build(await user.newProject(article))
    return { user, worker, jobId: job.id as string, claim: await worker.claim() }
  }

  it.each([
    ['phase', 'report-phase', { phase: 'uploading_result' }],
    ['complete', 'complete-claim', { roles: ['pdf'], diagnostics: [] }],
    ['release', 'release-claim', { reason: 'shutdown' }],
    [
      'fail',
      'fail-claim',
      { failure_class: 'processor_rejected', message: 'No.', limit: null, diagnostics: [], roles: [] },
    ],
  ])('runs after a failure before the commit of %s, which left nothing behind', async (call, step, body) => {
    const { worker, claim, user, jobId } = await held()
    await worker.stage(claim, 'pdf', smallPdf)
    const before = await platen.query('SELECT to_jsonb(job) AS job FROM processing.job WHERE id = $1', [claim.job_id])
    failAt(`${step}.before-commit`)
    const key = randomUUID()
    expect(await worker.of(claim, call, body, key)).toMatchObject({ status: 500, body: { code: 'internal' } })
    expect(await platen.query('SELECT 1 FROM processing.worker_request WHERE key = $1', [key])).toEqual([])
    expect(await platen.query('SELECT to_jsonb(job) AS job FROM processing.job WHERE id = $1', [claim.job_id])).toEqual(
      before,
    )
    expect(await worker.of(claim, call, body, key)).toMatchObject({ status: 200 })
    await user.cancel(jobId)
  })

  it.each(['acquire', 'complete'])('gives the stored answer when only the answer of %s was lost', async (call) => {
    const { worker, claim, user, jobId } = await held()
    await worker.stage(claim, 'pdf', smallPdf)
    const key = randomUUID()
    if (call === 'acquire') {
      await user.build(await user.newProject(article))
      failAt('acquire.after-commit')
      expect(await worker.acquire({ key })).toMatchObject({ status: 500 })
      const { body } = await worker.acquire({ key })
      expect(body.claims).toHaveLength(1)
      expect((await worker.deliver(body.claims[0])).status).toBe(200)
    } else {
      failAt('complete-claim.after-commit')
      const complete = () => worker.of(claim, 'complete', { roles: ['pdf'], diagnostics: [] }, key)
      expect(await complete()).toMatchObject({ status: 500 })
      expect(await complete()).toMatchObject({ status: 200, body: { state: 'finalizing' } })
      // Nobody was told to publish it; the reaper takes it over when its finalizer has been silent for long enough.
      await platen.query('UPDATE processing.job SET finalization_expires_at = now() WHERE id = $1', [claim.job_id])
      expect(await user.finished(jobId)).toMatchObject({ state: 'SUCCEEDED' })
    }
    await user.cancel(jobId)
  })

  it('is told to come again when the first one takes long, and has its answer then', async () => {
    const { worker, claim } = await held()
    const entered = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    faults.set('report-phase.before-commit', async () => {
      faults.delete('report-phase.before-commit')
      entered.resolve()
      await goOn.promise
    })
    const key = randomUUID()
    const report = () => worker.of(claim, 'phase', { phase: 'uploading_result' }, key)
    const first = report()
    await entered.promise
    const second = await report()
    expect(second).toMatchObject({ status: 409, body: { code: 'idempotency_key_in_use' } })
    expect(second.headers.get('retry-after')).toBe('1')
    goOn.resolve()
    expect(await first).toMatchObject({ status: 200 })
    expect(await report()).toMatchObject({ status: 200 })
    await worker.deliver(claim)
  })

  it('is refused when the session behind it is over, whatever is stored', async () => {
    const user = await platen.newUser()
    const worker = platen.newWorker()
    const instanceId = randomUUID()
    await worker.open({ instanceId })
    await user.build(await user.newProject(article))
    const key = randomUUID()
    const { body } = await worker.acquire({ key })
    expect(body.claims).toHaveLength(1)
    const renewed = platen.newWorker()
    await renewed.open({ instanceId })
    expect(await worker.acquire({ key })).toMatchObject({ status: 401, body: { code: 'session_lost' } })
    await renewed.deliver(await renewed.claim())
  })

  it('publishes in one commit: nothing of it is seen before, and nothing is left of one that failed', async () => {
    const { worker, claim, user, jobId } = await held()
    const look = () =>
      platen.query(
        `SELECT state,
           EXISTS (SELECT FROM processing.publication p WHERE p.job_id = job.id) AS published,
           EXISTS (SELECT FROM processing.artifact a WHERE a.job_id = job.id) AS artifact,
           EXISTS (SELECT FROM processing.staging s WHERE s.claim_id = $2) AS staged
         FROM processing.job WHERE id = $1`,
        [claim.job_id, claim.claim_id],
      )
    const seen: unknown[] = []
    faults.set('publish.before-commit', async () => {
      seen.push(...(await look()))
      if (seen.length === 1) throw new Error('the database had a bad moment')
    })
    await worker.deliver(claim)
    expect(await user.finished(jobId)).toMatchObject({ state: 'SUCCEEDED', artifacts: [{ role: 'PDF' }] })
    const nothing = { state: 'finalizing', published: false, artifact: false, staged: true }
    expect(seen).toEqual([nothing, nothing])
    expect(await look()).toEqual([{ state: 'succeeded', published: true, artifact: true, staged: false }])
  })
})
