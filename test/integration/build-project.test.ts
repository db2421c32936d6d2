import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestApp, type TestApp } from '../support/platen/app.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }

describe('buildProject', () => {
  let platen: TestApp
  beforeAll(async () => {
    platen = await startTestApp()
  })
  afterAll(() => platen[Symbol.asyncDispose]())

  it('captures the project and publishes what a worker delivers', async () => {
    const user = await platen.newUser()
    const worker = platen.newWorker()
    await worker.open()
    const projectId = await user.newProject(article)
    const { job } = await user.build(projectId)
    expect(job).toMatchObject({ state: 'PREPARING', phase: 'CAPTURING_INPUT', attempt: 0 })

    const claim = await worker.claim()
    expect(claim).toMatchObject({ attempt: 1, operation: 'latex.compile.pdf/v1', options: { on_error: 'fail' } })
    const delivered = await worker.deliver(claim)
    expect(delivered).toMatchObject({ status: 200, body: { state: 'finalizing' } })

    const ended = await user.finished(job.id)
    expect(ended).toMatchObject({
      state: 'SUCCEEDED',
      phase: null,
      attempt: 1,
      failure: null,
      processorContract: 'c'.repeat(64),
    })
    expect(ended.artifacts).toMatchObject([{ role: 'PDF', mediaType: 'application/pdf', fileName: 'Test.pdf' }])
  })

  it('gives one job to one key, however often and however fast it is sent', async () => {
    const user = await platen.newUser()
    const projectId = await user.newProject(article)
    const idempotencyKey = randomUUID()
    const answers = await Promise.all(Array.from({ length: 8 }, () => user.build(projectId, { idempotencyKey })))
    expect(new Set(answers.map((answer) => answer.job.id)).size).toBe(1)
    expect(answers.filter((answer) => !answer.replayed)).toHaveLength(1)
  })

  it('refuses a key that was used for other options', async () => {
    const user = await platen.newUser()
    const projectId = await user.newProject(article)
    const idempotencyKey = randomUUID()
    await user.build(projectId, { idempotencyKey })
    const answer = await user.build(projectId, { idempotencyKey, latex: { engine: 'XELATEX' } })
    expect(answer).toMatchObject({ __typename: 'IdempotencyConflictError', code: 'IDEMPOTENCY_CONFLICT' })
  })

  it('lets two people use the same key', async () => {
    const [anna, ben] = [await platen.newUser(), await platen.newUser()]
    const idempotencyKey = randomUUID()
    const first = await anna.build(await anna.newProject(article), { idempotencyKey })
    const second = await ben.build(await ben.newProject(article), { idempotencyKey })
    expect(second.job.id).not.toBe(first.job.id)
  })
})
