import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startTestApp, type TestApp } from '../support/platen/app.ts'
import type { WorkerClient } from '../support/platen/worker-client.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }

/** Workers that have nothing to do wait in Core, not in PostgreSQL. */
describe('idle workers', () => {
  let platen: TestApp
  const statements: string[] = []
  beforeEach(async () => {
    const count = (_context: unknown, query: { sql: string }) => {
      statements.push(query.sql)
      return null
    }
    platen = await startTestApp({
      // As a deployment has them by default.
      limits: { reaper_seconds: 1 },
      core: { interceptors: [{ name: 'count', beforeQueryExecution: count }] },
    })
  })
  afterEach(() => platen[Symbol.asyncDispose]())

  async function openWorkers(count: number): Promise<WorkerClient[]> {
    const workers = Array.from({ length: count }, () => platen.newWorker())
    for (const worker of workers) await worker.open({ slots: 1 })
    return workers
  }
  const looks = () => statements.filter((text) => text.includes('claim_jobs')).length
  /** Resolves when as many calls wait as there are workers. */
  async function allWait(count: number): Promise<void> {
    for (;;) {
      const metrics = await (await fetch(`${platen.url}/metrics`)).text()
      if (metrics.includes(`platen_acquire_waiting ${count}`)) return
      await sleep(20)
    }
  }

  it('cost at most two statements a second, two hundred of them', async () => {
    const workers = await openWorkers(200)
    const over = new AbortController()
    const heartbeats = workers.map(async (worker) => {
      while (!over.signal.aborted)
        await worker.post(`/sessions/${worker.sessionId}/heartbeat`, { processors: [], wait_seconds: 5 })
    })
    // Each asks again as soon as it is answered, as an agent does.
    const acquires = workers.map(async (worker) => {
      while (!over.signal.aborted) await worker.acquire({ wait: 3 })
    })
    await allWait(200)
    statements.length = 0
    const seconds = 8
    await sleep(seconds * 1_000)
    const spent = [...statements]
    over.abort()
    await Promise.all([...heartbeats, ...acquires])
    expect(spent.length).toBeGreaterThan(0)
    expect(spent.length).toBeLessThanOrEqual(2 * seconds)
  })

  it('are woken one for one job, and the longest waiting first', async () => {
    const [first, ...others] = await openWorkers(20)
    const firstAnswer = (first as WorkerClient).acquire({ wait: 20 })
    await allWait(1)
    const rest = others.map((worker) => worker.acquire({ wait: 2 }))
    await allWait(20)
    const before = looks()
    const user = await platen.newUser()
    await user.build(await user.newProject(article))
    expect((await firstAnswer).body.claims).toHaveLength(1)
    for (const answer of await Promise.all(rest)) expect(answer.body.claims).toEqual([])
    expect(looks() - before).toBe(1)
  })

  it('take as many jobs at once as come at once', async () => {
    const workers = await openWorkers(6)
    const answers = workers.map((worker) => worker.acquire({ wait: 20 }))
    await allWait(6)
    const users = await Promise.all(Array.from({ length: 6 }, () => platen.newUser()))
    await Promise.all(users.map(async (user) => user.build(await user.newProject(article))))
    const jobs = (await Promise.all(answers)).flatMap(({ body }) =>
      body.claims.map((claim: { job_id: string }) => claim.job_id),
    )
    expect(new Set(jobs).size).toBe(6)
  })

  it('find a job by themselves whose announcement was lost', async () => {
    const [worker] = await openWorkers(1)
    const user = await platen.newUser()
    const { job } = await user.build(await user.newProject(article))
    await user.until(job.id, (state) => state.state === 'QUEUED')
    const claim = await (worker as WorkerClient).claim()
    const answer = (worker as WorkerClient).acquire({ wait: 20 })
    await allWait(1)
    // Handed back behind Core's back: nobody is told.
    await platen.query('DELETE FROM processing.claim_slot')
    await platen.query(
      `UPDATE processing.attempt SET ended_at = now(), outcome = 'released' WHERE claim_id = '${claim.claim_id}'`,
    )
    await platen.query(
      `UPDATE processing.job SET state = 'queued', phase = 'waiting_for_worker', version = version + 1 WHERE id = '${claim.job_id}'`,
    )
    await platen.query(`SELECT processing.enter_queue('${claim.job_id}')`)
    expect((await answer).body.claims).toMatchObject([{ job_id: claim.job_id, attempt: 2 }])
  })

  it('learn of a cancellation, and of a drain, while they wait', async () => {
    const [worker] = await openWorkers(1)
    const user = await platen.newUser()
    const { job } = await user.build(await user.newProject(article))
    const claim = await (worker as WorkerClient).claim()
    const heartbeat = () =>
      (worker as WorkerClient).post(`/sessions/${(worker as WorkerClient).sessionId}/heartbeat`, {
        processors: [],
        wait_seconds: 5,
      })
    const told = heartbeat()
    await user.cancel(job.id)
    expect((await told).body).toEqual({ draining: false, cancelled_claims: [claim.claim_id] })
    const drained = heartbeat()
    await (worker as WorkerClient).post(`/sessions/${(worker as WorkerClient).sessionId}/drain`, {})
    expect((await drained).body).toMatchObject({ draining: true })
  })
})
