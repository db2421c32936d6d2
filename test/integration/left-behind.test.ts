import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestApp, type TestApp } from '../support/platen/app.ts'
import { smallPdf } from '../support/platen/worker-client.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }

/** Jobs end in every way; what was kept only for their sake goes with them. */
describe('what a finished job leaves behind', () => {
  let platen: TestApp
  let database: pg.Pool
  beforeAll(async () => {
    platen = await startTestApp()
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
    const claim = await worker.claim()
    await worker.stage(claim, 'pdf', smallPdf)
    await worker.stage(claim, 'log', Buffer.from('the log'))
    return { user, worker, jobId: job.id as string, claim }
  }
  const rows = async (query: string) => (await database.query(query)).rows
  /** Nothing but the project and the artifacts may be held on to. */
  const expectNothingLeft = async () => {
    expect(await rows('SELECT 1 FROM processing.staging')).toEqual([])
    expect(await rows('SELECT 1 FROM workspace.snapshot')).toEqual([])
    expect(await rows('SELECT 1 FROM collaboration.frozen_text_pin')).toEqual([])
    expect(await rows('SELECT 1 FROM processing.attempt WHERE ended_at IS NULL')).toEqual([])
    expect(await rows(`SELECT holder FROM blob.reference WHERE holder !~ '^(asset|artifact|upload):'`)).toEqual([])
  }

  it('is its artifacts, after a success', async () => {
    const { user, worker, jobId, claim } = await held()
    await worker.of(claim, 'complete', { roles: ['pdf', 'log'], diagnostics: [] })
    expect((await user.finished(jobId)).artifacts).toHaveLength(2)
    await expectNothingLeft()
  })

  it('is what explains it, after a failure', async () => {
    const { user, worker, jobId, claim } = await held()
    await worker.fail(claim, 'processor_rejected', { roles: ['log'] })
    expect((await user.finished(jobId)).artifacts).toMatchObject([{ role: 'LOG' }])
    await expectNothingLeft()
  })

  it('is nothing, after a cancellation or a result that was refused', async () => {
    const cancelled = await held()
    await cancelled.user.cancel(cancelled.jobId)
    await cancelled.worker.fail(cancelled.claim, 'worker_interrupted')
    const refused = await held()
    await refused.worker.stage(refused.claim, 'pdf', Buffer.from('no PDF'))
    await refused.worker.of(refused.claim, 'complete', { roles: ['pdf'], diagnostics: [] })
    expect(await refused.user.finished(refused.jobId)).toMatchObject({ state: 'FAILED', artifacts: [] })
    await expectNothingLeft()
  })

  it('is nothing, after it was cancelled in the queue', async () => {
    const user = await platen.newUser()
    const { job } = await user.build(await user.newProject(article))
    await user.until(job.id, (state) => state.state === 'QUEUED')
    await user.cancel(job.id)
    await expectNothingLeft()
  })
})
