import { type ChildProcess, fork } from 'node:child_process'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from '../../scripts/processes.ts'
import { Agent } from '../../worker/src/agent/agent.ts'
import type { Outcome, Task } from '../../worker/src/sdk/index.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ApiClient } from '../support/platen/api-client.ts'
import { smallPdf } from '../support/platen/worker-client.ts'
import { repositoryRoot } from '../support/repository.ts'

const workerToken = `plw_local.${randomBytes(32).toString('base64url')}`
const apiToken = `pl_${randomBytes(32).toString('base64url')}`
const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }
const operation = 'latex.compile.pdf/v1' as const
const contract = 'c'.repeat(64)

/** The steps of a job that goes well, in their order; each commit and each transfer is a place to die at. */
const commits = [
  'submit',
  'queue',
  'acquire',
  'report-phase',
  'stage-result',
  'store-result',
  'complete-claim',
  'publish',
]
const transfers = [
  'bundle.before-transfer',
  'bundle.after-transfer',
  'input.before-transfer',
  'result.before-transfer',
  'result.after-transfer',
]
const points = [...commits.flatMap((step) => [`${step}.before-commit`, `${step}.after-commit`]), ...transfers]

describe('a Core that dies', () => {
  let directory: string
  let database: TestDatabase
  let rows: pg.Pool
  let port: number
  let core: ChildProcess
  let agent: Agent
  let running: Promise<void>
  const secret = randomBytes(32).toString('hex')

  async function start(failpoints: string): Promise<void> {
    core = fork(join(repositoryRoot, 'server/src/main.ts'), {
      execPath: process.execPath,
      env: {
        ...process.env,
        DATABASE_URL: database.url,
        PORT: String(port),
        PLATEN_CONFIG: join(directory, 'platen.toml'),
        PLATEN_SECRET: secret,
        PLATEN_DEV_TOKEN: apiToken,
        PLATEN_FAILPOINTS: failpoints,
        LOG_LEVEL: 'silent',
      },
    })
    await once(core, 'message')
  }

  beforeAll(async () => {
    database = await createDatabase()
    rows = new pg.Pool({ connectionString: database.url, max: 1 })
    port = await freePort()
    directory = await mkdtemp(join(tmpdir(), 'platen-failpoints-'))
    await writeFile(
      join(directory, 'platen.toml'),
      `[operations."${operation}"]
[workers.local]
token_sha256 = "${createHash('sha256').update(workerToken).digest('hex')}"
operations = ["${operation}"]
[limits]
reaper_seconds = 0.1
preparer_seconds = 1
finalization_seconds = 1
session_heartbeat_seconds = 1
acquire_wait_seconds = 2
`,
    )
    const run = async (task: Task): Promise<Outcome> => {
      const path = join(task.resultDirectory, 'pdf')
      await writeFile(path, smallPdf)
      return { kind: 'completed', results: [{ role: 'pdf', mediaType: 'application/pdf', path }], diagnostics: [] }
    }
    const named = { operation, name: 'test', version: '1' }
    agent = new Agent({
      coreUrl: `http://127.0.0.1:${port}`,
      workerToken,
      executor: { kind: 'subprocess', open: () => Promise.reject(new Error('nothing is run here')) },
      processors: [
        {
          processor: { ...named, inspect: async () => ({ ready: true, contract, facts: {} }), run },
          registration: { ...named, contract, slots: 1, facts: {} },
        },
      ],
      temporaryDirectory: directory,
      log: pino({ level: 'silent' }),
    })
    running = agent.run()
  })
  afterAll(async () => {
    await agent.stop(0)
    await running
    await rows.end()
    await rm(directory, { recursive: true, force: true })
    await database[Symbol.asyncDispose]()
  })

  /** Asks until it is answered, whoever answers. */
  async function insist<T>(ask: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await ask()
      } catch {
        await sleep(50)
      }
    }
  }

  it.each(points)('at %s loses nothing and doubles nothing', async (point) => {
    await start(`${point}=kill`)
    const died = once(core, 'exit')
    const restarted = died.then(() => start(''))
    const api = new ApiClient(`http://127.0.0.1:${port}`, apiToken)
    const projectId = await api.newProject(article)
    const idempotencyKey = randomUUID()
    const { job } = await insist(async () => {
      const accepted = await api.build(projectId, { idempotencyKey })
      if (!accepted.job) throw new Error('not accepted')
      return accepted
    })
    const [, signal] = await died
    expect(signal).toBe('SIGKILL')
    await restarted
    const ended = await insist(() => api.finished(job.id))
    expect(ended).toMatchObject({ state: 'SUCCEEDED', attempt: 1, artifacts: [{ role: 'PDF' }] })
    const left = await rows.query(`
      SELECT claim_id::text FROM processing.claim_slot UNION ALL SELECT claim_id::text FROM processing.staging
      UNION ALL SELECT holder FROM blob.reference WHERE holder ~ '^(staging|job-input):'`)
    expect(left.rows).toEqual([])
    core.kill('SIGTERM')
    await once(core, 'exit')
  })
})
