import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { Agent } from '../../worker/src/agent/agent.ts'
import { createExecutor } from '../../worker/src/sandbox/index.ts'
import type { Outcome, Processor, Task } from '../../worker/src/sdk/index.ts'
import type { ApiClient } from '../support/platen/api-client.ts'
import { startTestApp, type TestApp } from '../support/platen/app.ts'
import { smallPdf } from '../support/platen/worker-client.ts'

const article = { 'main.tex': '\\documentclass{article}\\begin{document}Hello\\end{document}' }

/** Resolves when the task is to stop. */
const stopped = (task: Task) =>
  new Promise<never>((_resolve, reject) =>
    task.signal.addEventListener('abort', () => reject(task.signal.reason), { once: true }),
  )

async function completed(task: Task, bytes: Buffer = smallPdf): Promise<Outcome> {
  const path = join(task.resultDirectory, 'pdf')
  await writeFile(path, bytes)
  return { kind: 'completed', results: [{ role: 'pdf', mediaType: 'application/pdf', path }], diagnostics: [] }
}

describe('the agent', () => {
  let platen: TestApp
  let user: ApiClient
  let database: pg.Pool
  let directory: string
  const agents: { readonly agent: Agent; readonly running: Promise<void> }[] = []
  beforeEach(async () => {
    platen = await startTestApp({
      limits: { session_heartbeat_seconds: 0.2, lease_seconds: 3 },
      bounds: { output_bytes: 5000 },
    })
    user = await platen.newUser()
    database = new pg.Pool({ connectionString: platen.database.url, max: 2 })
    directory = await mkdtemp(join(tmpdir(), 'platen-agent-test-'))
  })
  afterEach(async () => {
    for (const { agent } of agents) await agent.stop(0)
    await Promise.all(agents.splice(0).map(({ running }) => running))
    await database.end()
    await platen[Symbol.asyncDispose]()
    await rm(directory, { recursive: true })
  })

  /** Starts an agent whose processor is `run`; resolves when its session is open. */
  async function start(
    run: Processor['run'],
    {
      slots = 1,
      inspect = async () => ({ ready: true, contract: 'c'.repeat(64), facts: {} }),
    }: { slots?: number; inspect?: Processor['inspect'] } = {},
  ): Promise<Agent> {
    const readiness = await createExecutor('subprocess', { temporaryDirectory: directory, slots })
    if (!readiness.ready) throw new Error(readiness.reason)
    const operation = 'latex.compile.pdf/v1' as const
    const processor: Processor = {
      operation,
      name: 'test',
      version: '1',
      inspect,
      run,
    }
    const registration = { operation, name: 'test', version: '1', contract: 'c'.repeat(64), slots, facts: {} }
    const opened = Promise.withResolvers<void>()
    const agent = new Agent({
      coreUrl: platen.url,
      workerToken: `plw_local.${'w'.repeat(43)}`,
      executor: readiness.executor,
      processors: [{ processor, registration }],
      temporaryDirectory: directory,
      log: pino({ level: process.env.PLATEN_TEST_LOG ?? 'silent' }),
      onSession: opened.resolve,
    })
    agents.push({ agent, running: agent.run() })
    await opened.promise
    return agent
  }
  const submit = async (): Promise<string> => (await user.build(await user.newProject(article))).job.id
  const sessions = async () =>
    (await database.query('SELECT id FROM processing.session ORDER BY opened_at')).rows.map((row) => row.id as string)

  it('gives a processor the verified files and bounds, and delivers what it made', async () => {
    let seen: { text: string; task: Task } | null = null
    await start(async (task) => {
      seen = { text: await readFile(join(task.inputDirectory, 'main.tex'), 'utf8'), task }
      return completed(task)
    })
    const ended = await user.finished(await submit())
    expect(ended).toMatchObject({
      state: 'SUCCEEDED',
      attempt: 1,
      artifacts: [{ role: 'PDF', byteLength: String(smallPdf.length) }],
    })
    expect(seen).toMatchObject({
      text: article['main.tex'],
      task: { limits: { output_bytes: 5000 }, options: { on_error: 'fail' } },
    })
  })

  it('reports what a processor says of a failure, with the files that explain it', async () => {
    await start(async (task) => {
      const path = join(task.resultDirectory, 'log')
      await writeFile(path, 'the log')
      const diagnostics = [
        { severity: 'error' as const, file: 'main.tex', line: 1, message: 'Bad', context: null, hint: null },
      ]
      return {
        kind: 'failed',
        failureClass: 'processor_rejected',
        message: 'It is bad.',
        limit: null,
        diagnostics,
        results: [{ role: 'log', mediaType: 'text/plain', path }],
      }
    })
    expect(await user.finished(await submit())).toMatchObject({
      state: 'FAILED',
      failure: { class: 'PROCESSOR_REJECTED', message: 'It is bad.' },
      diagnostics: [{ file: 'main.tex', line: 1 }],
      artifacts: [{ role: 'LOG' }],
    })
  })

  it('fails a job whose result is too large, by that limit', async () => {
    await start((task) => completed(task, Buffer.alloc(5001)))
    expect(await user.finished(await submit())).toMatchObject({
      state: 'FAILED',
      failure: { class: 'RESOURCE_LIMIT', limit: { name: 'output_bytes', value: 5000 } },
    })
  })

  it('has a job tried again whose processor broke, a bounded number of times', async () => {
    let runs = 0
    await start(async (task) => {
      runs += 1
      if (runs === 1) throw new Error('broke')
      return completed(task)
    })
    expect(await user.finished(await submit())).toMatchObject({ state: 'SUCCEEDED', attempt: 2 })
  })

  it('stops a processor whose job is cancelled, and takes the next', async () => {
    const reasons: unknown[] = []
    const begun = Promise.withResolvers<void>()
    let first = true
    await start(async (task) => {
      if (!first) return completed(task)
      first = false
      begun.resolve()
      return stopped(task).catch((reason) => {
        reasons.push(reason)
        throw reason
      })
    })
    const jobId = await submit()
    await begun.promise
    await user.cancel(jobId)
    expect(await user.finished(jobId)).toMatchObject({ state: 'CANCELLED' })
    expect(reasons).toMatchObject([{ kind: 'cancelled' }])
    expect(await user.finished(await submit())).toMatchObject({ state: 'SUCCEEDED' })
  })

  it('stops a processor whose claim is lost, and reports nothing of it', async () => {
    const lost = Promise.withResolvers<unknown>()
    const begun = Promise.withResolvers<void>()
    let runs = 0
    await start(
      async (task) => {
        runs += 1
        if (runs > 1) return completed(task)
        begun.resolve()
        return stopped(task).catch((reason) => {
          lost.resolve(reason)
          throw reason
        })
      },
      { slots: 2 },
    )
    const jobId = await submit()
    await begun.promise
    await database.query(`UPDATE processing.attempt SET lease_expires_at = '-infinity'`)
    expect(await lost.promise).toMatchObject({ kind: 'claim_lost' })
    expect(await user.finished(jobId)).toMatchObject({ state: 'SUCCEEDED', attempt: 2 })
    expect((await database.query('SELECT outcome FROM processing.attempt ORDER BY number')).rows).toEqual([
      { outcome: 'lease_expired' },
      { outcome: 'delivered' },
    ])
  })

  it('opens another session when Core forgot the first, and goes on', async () => {
    await start((task) => completed(task))
    await database.query('UPDATE processing.session SET ended_at = now()')
    expect(await user.finished(await submit())).toMatchObject({ state: 'SUCCEEDED' })
    expect(await sessions()).toHaveLength(2)
  })

  it('told to stop, finishes what it has if that is quick, and takes nothing more', async () => {
    const begun = Promise.withResolvers<void>()
    const finish = Promise.withResolvers<void>()
    const agent = await start(async (task) => {
      begun.resolve()
      await finish.promise
      return completed(task)
    })
    const jobId = await submit()
    await begun.promise
    const waiting = await submit()
    const stop = agent.stop(60)
    finish.resolve()
    await stop
    expect(await user.finished(jobId)).toMatchObject({ state: 'SUCCEEDED', attempt: 1 })
    expect(await user.job(waiting)).toMatchObject({ state: 'QUEUED', attempt: 0 })
  })

  it('told to stop, hands back what takes longer, and another finishes it', async () => {
    const begun = Promise.withResolvers<void>()
    const agent = await start((task) => {
      begun.resolve()
      return stopped(task)
    })
    const jobId = await submit()
    await begun.promise
    await agent.stop(0)
    expect(await user.job(jobId)).toMatchObject({ state: 'QUEUED', attempt: 1 })
    await start((task) => completed(task))
    expect(await user.finished(jobId)).toMatchObject({ state: 'SUCCEEDED', attempt: 2 })
  })

  it('never runs more at once than it has slots', async () => {
    let now = 0
    let most = 0
    await start(
      async (task) => {
        now += 1
        most = Math.max(most, now)
        await new Promise((resolve) => setImmediate(resolve))
        now -= 1
        return completed(task)
      },
      { slots: 2 },
    )
    const jobIds = await Promise.all(Array.from({ length: 8 }, submit))
    for (const jobId of jobIds) expect(await user.finished(jobId)).toMatchObject({ state: 'SUCCEEDED', attempt: 1 })
    expect(most).toBeLessThanOrEqual(2)
  })

  it('takes no more work for a processor that broke until it works again', async () => {
    let runs = 0
    let inspected = 0
    const agent = await start(
      async (task) => {
        runs += 1
        if (runs === 1) throw new Error('the toolchain is gone')
        return completed(task)
      },
      {
        inspect: async () => {
          inspected += 1
          return { ready: true, contract: 'c'.repeat(64), facts: {} }
        },
      },
    )
    expect(await user.finished(await submit())).toMatchObject({ state: 'SUCCEEDED', attempt: 2 })
    expect(inspected).toBe(1)
    await agent.stop(0)
  })

  it('keeps the claim of a job that takes every processor for longer than its lease', { timeout: 60_000 }, async () => {
    const loops = 'for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; sleep 6; kill 0'
    await start(async (task) => {
      await using workspace = await task.executor.open({
        limits: { ...task.limits, cpu_seconds: 1000 },
        signal: task.signal,
      })
      const environment = { PATH: '/usr/bin:/bin' }
      await workspace.run({ command: '/bin/sh', args: ['-c', loops], environment, directory: '' })
      return completed(task)
    })
    expect(await user.finished(await submit())).toMatchObject({ state: 'SUCCEEDED', attempt: 1 })
  })
})
