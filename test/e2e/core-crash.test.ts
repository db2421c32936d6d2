import { type ChildProcess, fork } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ApiClient } from '../support/platen/api-client.ts'
import { smallPdf, WorkerClient } from '../support/platen/worker-client.ts'
import { repositoryRoot } from '../support/repository.ts'

const workerToken = `plw_local.${randomBytes(32).toString('base64url')}`
const apiToken = `pl_${randomBytes(32).toString('base64url')}`
const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }

describe('a Core that is killed', () => {
  let directory: string
  let database: TestDatabase
  let core: ChildProcess
  let url: string
  const secret = randomBytes(32).toString('hex')

  beforeAll(async () => {
    database = await createDatabase()
    directory = await mkdtemp(join(tmpdir(), 'platen-crash-'))
    await writeFile(
      join(directory, 'platen.toml'),
      `[operations."latex.compile.pdf/v1"]
[workers.local]
token_sha256 = "${createHash('sha256').update(workerToken).digest('hex')}"
operations = ["latex.compile.pdf/v1"]
[limits]
reaper_seconds = 0.1
preparer_seconds = 1
finalization_seconds = 1
`,
    )
    await start()
  })
  afterAll(async () => {
    await kill()
    await rm(directory, { recursive: true })
    await database[Symbol.asyncDispose]()
  })

  async function start(): Promise<void> {
    core = fork(join(repositoryRoot, 'server/src/main.ts'), {
      execPath: process.execPath,
      env: {
        ...process.env,
        DATABASE_URL: database.url,
        PORT: '0',
        PLATEN_CONFIG: join(directory, 'platen.toml'),
        PLATEN_SECRET: secret,
        PLATEN_DEV_TOKEN: apiToken,
        LOG_LEVEL: 'silent',
      },
    })
    const [message] = await once(core, 'message')
    url = `http://127.0.0.1:${message.port}`
  }
  async function kill(): Promise<void> {
    core.kill('SIGKILL')
    await once(core, 'exit')
  }
  const restart = async () => {
    await kill()
    await start()
  }
  const api = () => new ApiClient(url, apiToken)
  /** The session outlives the process: its token is made from the deployment's secret. */
  const same = (worker: WorkerClient) =>
    Object.assign(new WorkerClient(url, workerToken), {
      sessionId: worker.sessionId,
      sessionToken: worker.sessionToken,
    })

  it('right after a submission was answered, loses nothing: the job is prepared by the next one', async () => {
    const projectId = await api().newProject(article)
    const { job } = await api().build(projectId)
    await restart()
    expect(await api().until(job.id, (state) => state.state !== 'PREPARING')).toMatchObject({ state: 'QUEUED' })
    const worker = new WorkerClient(url, workerToken)
    await worker.open()
    await worker.deliver(await worker.claim())
    expect(await api().finished(job.id)).toMatchObject({ state: 'SUCCEEDED', attempt: 1 })
  })

  it('while a worker computes, costs no attempt: the claim holds and the result is published once', async () => {
    const projectId = await api().newProject(article)
    const { job } = await api().build(projectId)
    const worker = new WorkerClient(url, workerToken)
    await worker.open()
    const claim = await worker.claim()
    await restart()
    const key = '00000000-0000-4000-8000-00000000000a'
    await same(worker).stage(claim, 'pdf', smallPdf)
    const complete = () => same(worker).of(claim, 'complete', { roles: ['pdf'], diagnostics: [] }, key)
    expect(await complete()).toMatchObject({ status: 200 })
    await restart()
    // The worker did not hear the answer and asks again.
    expect(await complete()).toMatchObject({ status: 200, body: { state: 'finalizing' } })
    const ended = await api().finished(job.id)
    expect(ended).toMatchObject({ state: 'SUCCEEDED', attempt: 1 })
    expect(ended.artifacts).toHaveLength(1)
  })
})
