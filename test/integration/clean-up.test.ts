import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestApp, type TestApp } from '../support/platen/app.ts'
import { smallPdf } from '../support/platen/worker-client.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }
const uuid = (globalId: string) => Buffer.from(globalId, 'base64url').toString().split(':')[1] as string

/** Reapers find what is over by themselves, whoever left it. */
describe('clean-up', () => {
  let platen: TestApp
  beforeAll(async () => {
    platen = await startTestApp({ limits: { sweep_seconds: 0.2, blob_grace_seconds: 0.1 } })
  })
  afterAll(() => platen[Symbol.asyncDispose]())

  /** Resolves when a query has no rows. */
  async function gone(query: string, values: readonly unknown[] = []): Promise<void> {
    while ((await platen.query(query, values)).length > 0) await sleep(20)
  }
  async function delivered() {
    const user = await platen.newUser()
    const worker = platen.newWorker()
    await worker.open()
    const projectId = await user.newProject(article)
    const idempotencyKey = randomUUID()
    const { job } = await user.build(projectId, { idempotencyKey })
    await worker.deliver(await worker.claim())
    return { user, worker, projectId, idempotencyKey, job: await user.finished(job.id) }
  }
  const metric = async (line: string): Promise<number> => {
    const text = await (await fetch(`${platen.url}/metrics`)).text()
    return Number(
      text
        .split('\n')
        .find((each) => each.startsWith(line))
        ?.split(' ')
        .at(-1) ?? 0,
    )
  }

  it('forgets a job that ended long ago, with its artifacts and its key, and keeps the others', async () => {
    const old = await delivered()
    const young = await delivered()
    await platen.query(`ALTER TABLE processing.job DISABLE TRIGGER USER`)
    await platen.query(`UPDATE processing.job SET finished_at = now() - interval '91 days' WHERE id = $1`, [
      uuid(old.job.id),
    ])
    await platen.query(`ALTER TABLE processing.job ENABLE TRIGGER USER`)
    await gone('SELECT 1 FROM processing.job WHERE id = $1', [uuid(old.job.id)])
    expect(await old.user.job(old.job.id)).toBeNull()
    expect((await fetch(new URL(old.job.artifacts[0].downloadUrl, platen.url))).status).toBe(404)
    await gone(`SELECT 1 FROM blob.reference WHERE holder = $1`, [`artifact:${uuid(old.job.artifacts[0].id)}`])
    expect(await young.user.job(young.job.id)).toMatchObject({ state: 'SUCCEEDED', artifacts: [{ role: 'PDF' }] })
    // The key is free again, and stands for a new job.
    const { replayed } = await old.user.build(old.projectId, { idempotencyKey: old.idempotencyKey })
    expect(replayed).toBe(false)
  })

  it('drops staged files of an attempt that ended without them, and their bytes', async () => {
    const user = await platen.newUser()
    const worker = platen.newWorker()
    await worker.open()
    const { job } = await user.build(await user.newProject(article))
    const claim = await worker.claim()
    await worker.stage(claim, 'pdf', Buffer.concat([smallPdf, Buffer.from(`%${claim.claim_id}\n`)]))
    const [{ sha256 }] = await platen.query('SELECT sha256 FROM processing.staging WHERE claim_id = $1', [
      claim.claim_id,
    ])
    // As if it had ended without its files being thought of.
    await platen.query('DELETE FROM processing.claim_slot WHERE claim_id = $1', [claim.claim_id])
    await platen.query(`UPDATE processing.attempt SET ended_at = now(), outcome = 'failed' WHERE claim_id = $1`, [
      claim.claim_id,
    ])
    await gone('SELECT 1 FROM processing.staging WHERE claim_id = $1', [claim.claim_id])
    await gone('SELECT 1 FROM blob.blob WHERE sha256 = $1', [sha256])
    await platen.query('DELETE FROM processing.job WHERE id = $1', [uuid(job.id)])
  })

  it('repairs a place in line that is wrong, and says that there was one', async () => {
    const user = await platen.newUser()
    const { job } = await user.build(await user.newProject(article))
    await user.until(job.id, (state) => state.state === 'QUEUED')
    const before = await metric('platen_reaped_total{kind="queue_heads"}')
    await platen.query('UPDATE processing.queue_entry SET lane_head = false')
    await platen.query('UPDATE processing.turn SET head_seq = head_seq + 5, depth = 9')
    await gone(
      `SELECT 1 FROM processing.turn WHERE depth = 9 UNION ALL SELECT 1 FROM processing.queue_entry WHERE NOT lane_head`,
    )
    while ((await metric('platen_reaped_total{kind="queue_heads"}')) === before) await sleep(20)
    const worker = platen.newWorker()
    await worker.open()
    const claims = (await worker.acquire({ permits: 5 })).body.claims
    expect(claims.map((claim: { job_id: string }) => claim.job_id)).toContain(uuid(job.id))
  })

  it('forgets keys and stored answers past their time, in batches', async () => {
    const { worker } = await delivered()
    const of = `WHERE session_id = '${worker.sessionId}'`
    expect(await platen.query(`SELECT 1 FROM processing.worker_request ${of}`)).not.toEqual([])
    await platen.query(`UPDATE processing.worker_request SET created_at = now() - interval '1 day' ${of}`)
    await gone(`SELECT 1 FROM processing.worker_request ${of}`)
  })

  it('has a metric for each kind', async () => {
    const kinds = ['due', 'liveness', 'queue_heads', 'sessions', 'keys', 'uploads', 'staging', 'retention', 'blobs']
    for (const kind of kinds) {
      while ((await metric(`platen_reaper_passes_total{kind="${kind}"}`)) === 0) await sleep(50)
    }
  })
})
