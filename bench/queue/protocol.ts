import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Block, faultOf, perJob, type Times } from './block.ts'
import { type Cluster, connected, processorMs } from './cluster.ts'
import { startCore } from './core.ts'
import { countLine, loadPublishable } from './platen.ts'
import type { WorkerReport } from './protocol-worker.ts'

const workerProgram = fileURLToPath(new URL('./protocol-worker.ts', import.meta.url))
const settleSeconds = 20
/** In the order in which they happen. */
const stepNames = ['acquire', 'claims', 'stage', 'put', 'complete', 'whole job']

export interface ProtocolBlock extends Block {
  readonly steps: Readonly<Record<string, number>>
}

/** Core and one worker, each in its process: from jobs in line to published results. */
export async function runProtocolBlock(
  cluster: Cluster,
  template: string,
  { slots, jobs }: { slots: number; jobs: number },
  { warmUpSeconds, seconds }: Times,
): Promise<ProtocolBlock> {
  await using database = await cluster.clone(template)
  await cluster.checkpoint()
  await connected(database.url, (client) => loadPublishable(client, jobs))
  await database.unused()
  const before = await cluster.counters(database)
  const core = await startCore(cluster.directory, database.url, slots)
  const coreStartMs = processorMs(core.part.pid)
  const worker = fork(workerProgram, { env: { ...process.env, ...ordersFor(core, slots) } })
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => core[Symbol.asyncDispose]())
  cleanup.defer(() => void worker.kill('SIGKILL'))
  const published = () =>
    connected(database.url, async (client) => {
      const { rows } = await client.query(
        `SELECT count(*)::int AS jobs, (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now
         FROM processing.publication`,
      )
      return rows[0] as { jobs: number; now: number }
    })
  await sleep(warmUpSeconds * 1000)
  worker.send({ type: 'measure' })
  const from = await published()
  await sleep(seconds * 1000)
  const to = await published()
  worker.send({ type: 'rest' })
  const reported = once(worker, 'message') as Promise<[WorkerReport]>
  worker.send({ type: 'stop' })
  const [report] = await reported
  const coreEndMs = processorMs(core.part.pid)
  const line = await connected(database.url, async (client) => {
    for (const deadline = performance.now() + settleSeconds * 1000; ; await sleep(50)) {
      const now = await countLine(client)
      if (now.succeeded === report.delivered.length || performance.now() > deadline) return now
    }
  })
  const untilPublished = await connected(database.url, async (client) => {
    const { rows } = await client.query(
      `SELECT (extract(epoch FROM avg(ended.at - accepted.at)) * 1000)::float8 AS ms
       FROM processing.phase_history ended
       JOIN processing.phase_history accepted USING (job_id)
       WHERE ended.state = 'succeeded' AND accepted.state = 'finalizing' AND accepted.phase = 'validating_result'
         AND extract(epoch FROM ended.at) * 1000 BETWEEN $1 AND $2`,
      [from.now, to.now],
    )
    return rows[0].ms as number
  })
  await core.part.stop()
  await database.unused()
  const after = await cluster.counters(database)
  const done = report.delivered.length
  const problem =
    line.succeeded !== done ||
    line.waiting !== line.queued ||
    line.turns !== line.queued ||
    line.slots + line.open !== 0
  return {
    jobsPerSecond: ((to.jobs - from.jobs) / (to.now - from.now)) * 1000,
    ...perJob(before, after, done),
    clientMsPerJob: report.processorMs / done,
    steps: {
      ...Object.fromEntries(stepNames.map((name) => [name, report.steps[name] ?? Number.NaN])),
      'until published': untilPublished,
      ...(coreStartMs === null || coreEndMs === null ? {} : { 'Core, processor': (coreEndMs - coreStartMs) / done }),
      'worker, processor': report.processorMs / done,
    },
    fault: faultOf(jobs, report.delivered, line.queued, problem ? JSON.stringify(line) : null),
  }
}

const ordersFor = (core: { url: string; workerToken: string }, slots: number) => ({
  BENCH_CORE_URL: core.url,
  BENCH_TOKEN: core.workerToken,
  BENCH_SLOTS: String(slots),
})
