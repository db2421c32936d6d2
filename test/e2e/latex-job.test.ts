import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Stack, startStack } from '../../scripts/stack.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ApiClient } from '../support/platen/api-client.ts'

const article = String.raw`\documentclass{article}
\begin{document}
Hello from a job.
\end{document}`
/** Compiles until its worker is killed or its limit comes. */
const endless = String.raw`\documentclass{article}\begin{document}\loop\iftrue\repeat\end{document}`

describe('a LaTeX job through Core, worker, sandbox and TeX', () => {
  let database: TestDatabase
  let directory: string
  let stack: Stack
  let user: ApiClient
  beforeAll(async () => {
    database = await createDatabase()
    directory = await mkdtemp(join(tmpdir(), 'platen-e2e-'))
    await chmod(directory, 0o711)
    stack = await startStack({ directory: join(directory, 'state'), port: 0, databaseUrl: database.url })
    user = new ApiClient(stack.url, stack.token)
  })
  afterAll(async () => {
    await stack?.stop()
    await rm(directory, { recursive: true, force: true })
    await database[Symbol.asyncDispose]()
  })

  it('becomes a PDF with its log and positions, each state on its way', async () => {
    const { job } = await user.build(await user.newProject({ 'main.tex': article }))
    const phases = new Set<string>()
    for await (const state of user.watch(job.id)) if (state.phase) phases.add(state.phase)
    const ended = await user.job(job.id)
    expect(ended).toMatchObject({ state: 'SUCCEEDED', attempt: 1, diagnostics: [] })
    expect(phases).toContain('PROCESSING')
    expect(ended.artifacts.map((artifact: { role: string }) => artifact.role)).toEqual(['LOG', 'PDF', 'SYNCTEX'])
    const pdf = ended.artifacts.find((artifact: { role: string }) => artifact.role === 'PDF')
    const bytes = Buffer.from(await (await fetch(stack.url + pdf.downloadUrl)).arrayBuffer())
    expect(bytes.subarray(0, 5).toString()).toBe('%PDF-')
    expect(String(bytes.length)).toBe(pdf.byteLength)
  })

  it('gives the same bytes for the same input', async () => {
    const digests: string[] = []
    for (let round = 0; round < 2; round += 1) {
      const { job } = await user.build(await user.newProject({ 'main.tex': article }))
      const ended = await user.finished(job.id)
      digests.push(ended.artifacts.find((artifact: { role: string }) => artifact.role === 'PDF').sha256)
    }
    expect(digests[1]).toBe(digests[0])
  })

  it('fails with file, line and log when TeX rejects it, and publishes what TeX recovered when asked to', async () => {
    const projectId = await user.newProject({ 'main.tex': article.replace('Hello', '\\nosuchcommand Hello') })
    const failed = await user.finished((await user.build(projectId)).job.id)
    expect(failed).toMatchObject({ state: 'FAILED', failure: { class: 'PROCESSOR_REJECTED' } })
    expect(failed.diagnostics).toContainEqual({
      severity: 'ERROR',
      file: 'main.tex',
      line: 3,
      message: 'Undefined control sequence.',
    })
    expect(failed.artifacts.map((artifact: { role: string }) => artifact.role)).toEqual(['LOG'])
    const published = await user.finished((await user.build(projectId, { latex: { onError: 'PUBLISH' } })).job.id)
    expect(published).toMatchObject({ state: 'SUCCEEDED', diagnostics: [{ severity: 'ERROR', line: 3 }] })
  })

  it('stops when it is cancelled, and its worker takes the next', async () => {
    const { job } = await user.build(await user.newProject({ 'main.tex': endless }))
    await user.until(job.id, (state) => state.state === 'RUNNING')
    await user.cancel(job.id)
    expect(await user.finished(job.id)).toMatchObject({ state: 'CANCELLED', artifacts: [] })
    const next = await user.build(await user.newProject({ 'main.tex': article }))
    expect(await user.finished(next.job.id)).toMatchObject({ state: 'SUCCEEDED' })
  })

  it('is finished by another worker as attempt 2 when the first is killed', async () => {
    const { job } = await user.build(await user.newProject({ 'main.tex': endless }))
    await user.until(job.id, (state) => state.state === 'RUNNING')
    process.kill(stack.worker?.pid as number, 'SIGKILL')
    await stack.startWorker()
    expect(await user.until(job.id, (state) => state.attempt === 2)).toMatchObject({ state: 'RUNNING' })
    await user.cancel(job.id)
    expect(await user.finished(job.id)).toMatchObject({ state: 'CANCELLED', attempt: 2 })
  })
})
