import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestApp, type TestApp } from '../support/platen/app.ts'
import { smallPdf } from '../support/platen/worker-client.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }

describe('what becomes of a job', () => {
  let platen: TestApp
  let database: pg.Pool
  beforeAll(async () => {
    platen = await startTestApp({
      limits: { retry_backoff_seconds: 0.1, active_per_requester: 2, active_per_project: 1 },
    })
    database = new pg.Pool({ connectionString: platen.database.url, max: 2 })
  })
  afterAll(async () => {
    await database.end()
    await platen[Symbol.asyncDispose]()
  })

  const held = async () => {
    const user = await platen.newUser()
    const worker = platen.newWorker()
    await worker.open()
    const { job } = await user.build(await user.newProject(article))
    return { user, worker, jobId: job.id as string, claim: await worker.claim() }
  }
  /** What the clock would do, were it waited for. */
  const expireLease = (claimId: string) =>
    database.query(`UPDATE processing.attempt SET lease_expires_at = '-infinity' WHERE claim_id = $1`, [claimId])

  it('starts again as attempt 2 when its worker falls silent, and takes nothing from the first', async () => {
    const { user, worker, jobId, claim } = await held()
    await worker.stage(claim, 'pdf', smallPdf)
    await expireLease(claim.claim_id)
    const late = await worker.of(claim, 'complete', { roles: ['pdf'], diagnostics: [] })
    expect(late).toMatchObject({ status: 409, body: { code: 'claim_lost' } })
    const again = await worker.claim()
    expect(again).toMatchObject({ job_id: claim.job_id, attempt: 2 })
    expect(again.claim_id).not.toBe(claim.claim_id)
    await worker.deliver(again)
    expect(await user.finished(jobId)).toMatchObject({ state: 'SUCCEEDED', attempt: 2 })
  })

  it('fails when workers fall silent again and again', async () => {
    const { user, worker, jobId, claim } = await held()
    let current = claim
    for (const attempt of [1, 2, 3]) {
      expect(current.attempt).toBe(attempt)
      await expireLease(current.claim_id)
      if (attempt < 3) current = await worker.claim()
    }
    expect(await user.finished(jobId)).toMatchObject({
      state: 'FAILED',
      failure: { class: 'WORKER_INTERRUPTED' },
      attempt: 3,
    })
  })

  it('is tried again after a transient failure, and not after the input was rejected', async () => {
    const { user, worker, jobId, claim } = await held()
    expect(await worker.fail(claim, 'transient_infrastructure')).toMatchObject({ body: { state: 'queued' } })
    const again = await worker.claim()
    expect(again.attempt).toBe(2)
    expect(await worker.fail(again, 'processor_rejected')).toMatchObject({ body: { state: 'failed' } })
    expect(await user.job(jobId)).toMatchObject({
      state: 'FAILED',
      failure: { class: 'PROCESSOR_REJECTED' },
      attempt: 2,
    })
  })

  it('is cancelled at once while it waits', async () => {
    const user = await platen.newUser()
    const { job } = await user.build(await user.newProject(article))
    expect(await user.cancel(job.id)).toMatchObject({ job: { state: 'CANCELLED' } })
    expect(await user.cancel(job.id)).toMatchObject({ job: { state: 'CANCELLED' } })
  })

  it('publishes nothing once it was asked to cancel, and is cancelled when its worker obeys', async () => {
    const { user, worker, jobId, claim } = await held()
    await worker.stage(claim, 'pdf', smallPdf)
    expect(await user.cancel(jobId)).toMatchObject({ job: { state: 'RUNNING', cancelRequested: true } })
    expect(await worker.post(`/sessions/${worker.sessionId}/heartbeat`, { processors: [] })).toMatchObject({
      body: { cancelled_claims: [claim.claim_id] },
    })
    expect(await worker.of(claim, 'heartbeat')).toMatchObject({ body: { cancel_requested: true } })
    expect(await worker.of(claim, 'complete', { roles: ['pdf'], diagnostics: [] })).toMatchObject({
      status: 409,
      body: { code: 'claim_cancelled' },
    })
    expect(await worker.fail(claim, 'worker_interrupted')).toMatchObject({ body: { state: 'cancelled' } })
    expect(await user.job(jobId)).toMatchObject({ state: 'CANCELLED', artifacts: [] })
  })

  it('is cancelled when its worker never obeys, at the end of the lease', async () => {
    const { user, jobId, claim } = await held()
    await user.cancel(jobId)
    await expireLease(claim.claim_id)
    expect(await user.finished(jobId)).toMatchObject({ state: 'CANCELLED' })
  })

  it('succeeds when its delivery came before the cancellation', async () => {
    const { user, worker, jobId, claim } = await held()
    await worker.deliver(claim)
    expect(['FINALIZING', 'SUCCEEDED']).toContain((await user.cancel(jobId)).job.state)
    expect(await user.finished(jobId)).toMatchObject({ state: 'SUCCEEDED' })
  })

  it('is one of the two, when cancellation and delivery race', async () => {
    for (let round = 0; round < 8; round += 1) {
      const { user, worker, jobId, claim } = await held()
      await worker.stage(claim, 'pdf', smallPdf)
      const [delivery] = await Promise.all([
        worker.of(claim, 'complete', { roles: ['pdf'], diagnostics: [] }),
        user.cancel(jobId),
      ])
      if (delivery.status !== 200) await worker.fail(claim, 'worker_interrupted')
      const job = await user.finished(jobId)
      expect(job.state).toBe(delivery.status === 200 ? 'SUCCEEDED' : 'CANCELLED')
      expect(job.artifacts).toHaveLength(delivery.status === 200 ? 1 : 0)
    }
  })

  it('publishes nothing of a project that was deleted meanwhile', async () => {
    const user = await platen.newUser()
    const worker = platen.newWorker()
    await worker.open()
    const projectId = await user.newProject(article)
    const { job } = await user.build(projectId)
    const claim = await worker.claim()
    await user.mutate(
      'deleteProject',
      'DeleteProjectInput',
      { projectId },
      '... on DeleteProjectPayload { deletedProjectId }',
    )
    await worker.deliver(claim)
    const ended = await user.finished(job.id)
    expect(ended).toMatchObject({ state: 'FAILED', failure: { class: 'INVALID_INPUT' }, artifacts: [] })
  })

  it('waits for a requester who has as many running as one may, and for a busy project', async () => {
    const user = await platen.newUser()
    const worker = platen.newWorker()
    await worker.open({ slots: 10 })
    const [one, two, three] = [
      await user.newProject(article),
      await user.newProject(article),
      await user.newProject(article),
    ]
    await user.build(one)
    const sameProject = await user.build(one)
    const first = await worker.claim()
    expect(await user.until(sameProject.job.id, (job) => job.waitingReason !== null)).toMatchObject({
      waitingReason: 'PROJECT_LIMIT',
    })
    await user.build(two)
    const second = await worker.claim()
    const overLimit = await user.build(three)
    expect(await user.until(overLimit.job.id, (job) => job.waitingReason !== null)).toMatchObject({
      waitingReason: 'REQUESTER_LIMIT',
    })
    expect((await worker.acquire({ permits: 5, wait: 0.1 })).body.claims).toEqual([])
    await worker.deliver(first)
    const third = await worker.claim()
    await worker.deliver(second)
    await worker.deliver(third)
    await worker.deliver(await worker.claim())
    expect(await user.finished(overLimit.job.id)).toMatchObject({ state: 'SUCCEEDED' })
  })

  it('is claimed in the order of submission', async () => {
    const worker = platen.newWorker()
    await worker.open({ slots: 10 })
    const order: string[] = []
    for (let number = 0; number < 4; number += 1) {
      const user = await platen.newUser()
      const { job } = await user.build(await user.newProject(article))
      await user.until(job.id, (state) => state.state === 'QUEUED')
      order.push(Buffer.from(job.id, 'base64url').toString().slice('Job:'.length))
    }
    const { body } = await worker.acquire({ permits: 10 })
    expect(body.claims.map((claim: { job_id: string }) => claim.job_id)).toEqual(order)
    for (const claim of body.claims) await worker.deliver(claim)
  })

  it('expires when it waited too long', async () => {
    const user = await platen.newUser()
    const { job } = await user.build(await user.newProject(article))
    await user.until(job.id, (state) => state.state === 'QUEUED')
    await database.query(`UPDATE processing.job SET queue_expires_at = now() WHERE state = 'queued'`)
    await database.query('UPDATE processing.queue_entry SET expires_at = now()')
    expect(await user.finished(job.id)).toMatchObject({ state: 'EXPIRED' })
  })
})

describe('a Core that stops half-way', () => {
  it('leaves no preparation behind: another goes on from the snapshot', async () => {
    await using platen = await startTestApp({ limits: { preparer_seconds: 0.2 } })
    const user = await platen.newUser()
    const projectId = await user.newProject(article)
    // The first Core hangs at the blob; the second finds its lease over and hangs too, until the lock goes.
    await using stalled = await lockTable(platen.database.url, 'blob.blob')
    const { job } = await user.build(projectId)
    await platen.newReplica()
    await stalled.release()
    expect(await user.until(job.id, (state) => state.state !== 'PREPARING')).toMatchObject({ state: 'QUEUED' })
    const worker = platen.newWorker()
    await worker.open()
    await worker.deliver(await worker.claim())
    expect(await user.finished(job.id)).toMatchObject({ state: 'SUCCEEDED', attempt: 1 })
  })

  it('leaves no delivery behind, and two that publish it publish it once', async () => {
    await using platen = await startTestApp({ limits: { finalization_seconds: 0.2 } })
    const user = await platen.newUser()
    const worker = platen.newWorker()
    await worker.open()
    const { job } = await user.build(await user.newProject(article))
    const claim = await worker.claim()
    await worker.stage(claim, 'pdf', smallPdf)
    await using stalled = await lockTable(platen.database.url, 'processing.artifact')
    await worker.of(claim, 'complete', { roles: ['pdf'], diagnostics: [] })
    await user.until(job.id, (state) => state.phase === 'VALIDATING_RESULT')
    await platen.newReplica()
    await stalled.release()
    const ended = await user.finished(job.id)
    expect(ended).toMatchObject({ state: 'SUCCEEDED' })
    expect(ended.artifacts).toHaveLength(1)
  })
})

/** Keeps everyone from writing to a table until it is released. */
async function lockTable(url: string, table: string): Promise<AsyncDisposable & { release(): Promise<void> }> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('BEGIN')
  await client.query(`LOCK TABLE ${table} IN EXCLUSIVE MODE`)
  return {
    release: async () => {
      await client.query('ROLLBACK')
    },
    [Symbol.asyncDispose]: () => client.end(),
  }
}
