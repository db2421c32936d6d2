import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { ApiClient } from '../../test/support/platen/api-client.ts'
import { WorkerClient } from '../../test/support/platen/worker-client.ts'
import { median, quantile, table } from '../statistics.ts'
import { faultOf } from './block.ts'
import { type Calibration, describeRounds } from './calibration.ts'
import { type Cluster, clockOffset, connected } from './cluster.ts'
import { startCore } from './core.ts'
import { addToGraphile, runGraphile, unbatched } from './graphile.ts'
import { addToBoss, runBoss } from './pg-boss.ts'
import { countLine } from './platen.ts'
import { figures, type Part, spread, verdict } from './report.ts'
import type { Templates } from './throughput.ts'

export interface LatencySizes {
  readonly rounds: number
  /** No round but the first begins later, by `performance.now()`. */
  readonly until: number
  /** Jobs of each system in a round. */
  readonly samples: number
}

interface Latencies {
  readonly milliseconds: readonly number[]
  readonly fault: string | null
}

const warmUpSamples = 20
const p99Aim = 15

/** Long enough that a worker is waiting again, and never in step with a timer. */
const pause = () => sleep(5 + Math.random() * 15)

/** When transactions were committed, by the server's account, in milliseconds since 1970. */
async function commitTimes(client: pg.Client, transactions: readonly string[]): Promise<number[]> {
  const { rows } = await client.query(
    `SELECT (extract(epoch FROM pg_xact_commit_timestamp(id::xid)) * 1000)::float8 AS at
     FROM unnest($1::text[]) WITH ORDINALITY AS t (id, n) ORDER BY n`,
    [transactions],
  )
  return rows.map((row) => row.at as number)
}

/** A person's `buildProject` by GraphQL, and a worker that waits in `acquire`. */
async function latenciesOfPlaten(cluster: Cluster, template: string, samples: number): Promise<Latencies> {
  await using database = await cluster.clone(template)
  await using core = await startCore(cluster.directory, database.url, 8)
  const api = new ApiClient(core.url, core.token)
  const worker = new WorkerClient(core.url, core.workerToken)
  await worker.open({ slots: 1 })
  const projectId = await api.newProject({ 'main.tex': '\\documentclass{article}' })
  const arrivals: { jobId: string; at: number }[] = []
  for (let sample = 0; sample < warmUpSamples + samples; sample += 1) {
    const acquiring = worker.acquire({ wait: 20 }).then(({ body }) => ({ claims: body.claims, at: performance.now() }))
    await pause()
    const submitted = await api.build(projectId)
    const { claims, at } = await acquiring
    if (claims.length !== 1) throw new Error(`no claim came: ${JSON.stringify(submitted)}`)
    arrivals.push({ jobId: claims[0].job_id, at })
    await worker.fail(claims[0], 'invalid_input')
  }
  return connected(database.url, async (client) => {
    const offset = await clockOffset(client)
    const { rows } = await client.query(
      `SELECT job_id, (extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000)::float8 AS at
       FROM processing.phase_history WHERE state = 'queued'`,
    )
    const queuedAt = new Map(rows.map((row) => [row.job_id as string, row.at as number]))
    const line = await countLine(client)
    const sound = line.waiting + line.turns + line.slots + line.open + line.repeated === 0
    const milliseconds = arrivals.map(({ jobId, at }) => at + offset - (queuedAt.get(jobId) ?? Number.NaN))
    const jobIds = arrivals.map(({ jobId }) => jobId)
    return {
      milliseconds: milliseconds.slice(warmUpSamples),
      fault: faultOf(rows.length, jobIds, line.queued, sound ? null : JSON.stringify(line)),
    }
  })
}

/** A peer's worker that waits, and jobs that are committed one by one. */
async function latenciesOfPeer(
  cluster: Cluster,
  template: string,
  samples: number,
  start: (
    url: string,
    onJob: (n: number) => void,
  ) => Promise<{ add: (client: pg.Client, n: number) => Promise<unknown>; stop: () => Promise<unknown> }>,
): Promise<Latencies> {
  await using database = await cluster.clone(template)
  const handled: string[] = []
  let arrived = (_n: number, _at: number) => {}
  const { add, stop } = await start(database.url, (n) => {
    handled.push(String(n))
    arrived(n, performance.now())
  })
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const transactions: string[] = []
  const arrivals: number[] = []
  await sleep(500)
  for (let sample = 0; sample < warmUpSamples + samples; sample += 1) {
    const arrival = new Promise<number>((resolve) => {
      arrived = (n, at) => n === sample && resolve(at)
    })
    await pause()
    await client.query('BEGIN')
    await add(client, sample)
    const { rows } = await client.query('SELECT pg_current_xact_id()::xid::text AS id')
    transactions.push(rows[0].id)
    await client.query('COMMIT')
    arrivals.push(await arrival)
  }
  const offset = await clockOffset(client)
  const committed = await commitTimes(client, transactions)
  await client.end()
  await sleep(200)
  await stop()
  await database.unused()
  const milliseconds = arrivals.map((at, index) => at + offset - (committed[index] as number))
  const fault = faultOf(transactions.length, handled, 0, null)
  return { milliseconds: milliseconds.slice(warmUpSamples), fault }
}

const startGraphile = async (url: string, onJob: (n: number) => void) => {
  const runner = await runGraphile(url, 1, unbatched, ({ n }) => onJob(n))
  return { add: addToGraphile, stop: () => runner.stop() }
}

const startBoss = async (url: string, onJob: (n: number) => void) => {
  const { boss, stop } = await runBoss(url, 1, ({ n }) => onJob(n))
  const add = (client: pg.Client, n: number) => addToBoss(boss, n, (text, values) => client.query(text, values))
  return { add, stop }
}

/** From the commit that makes a job claimable to the moment its worker has it, one waiting slot each. */
export async function measureStartLatency(
  cluster: Cluster,
  calibration: Calibration,
  templates: Templates,
  { rounds: count, until, samples }: LatencySizes,
): Promise<Part> {
  const measured = await calibration.rounds({ name: 'start latency', count, until }, async (checked) => ({
    platen: await checked(() => latenciesOfPlaten(cluster, templates.platen, samples)),
    graphile: await checked(() => latenciesOfPeer(cluster, templates.graphile, samples, startGraphile)),
    boss: await checked(() => latenciesOfPeer(cluster, templates.boss, samples, startBoss)),
  }))
  const { results } = measured
  const names = ['platen', 'graphile', 'boss'] as const
  const titles = { platen: 'Platen', graphile: 'graphile-worker', boss: 'pg-boss' }
  const of = (name: (typeof names)[number], share: number) =>
    results.map((round) => quantile(round[name].milliseconds, share))
  const all = results.flatMap((round) => round.platen.milliseconds)
  const faults = names.flatMap((name) =>
    results.flatMap((round) => (round[name].fault === null ? [] : [`${titles[name]}: ${round[name].fault}`])),
  )
  const better = median(of('graphile', 0.5)) <= median(of('boss', 0.5)) ? 'graphile' : 'boss'
  const ratios = results.map(
    (round) => quantile(round.platen.milliseconds, 0.5) / quantile(round[better].milliseconds, 0.5),
  )
  const sound = faults.length === 0
  const p99 = quantile(all, 0.99)
  return {
    title: 'Start latency',
    text: [
      `From the commit that makes a job claimable (pg_xact_commit_timestamp) to its arrival at a worker that waits, idle queue, ${all.length} jobs each. ${describeRounds(measured)}. Platen: buildProject by GraphQL, then Core's own process and the answer to acquire over HTTP.`,
      ...faults,
      table([
        ['ms', 'p50', 'p99'],
        ...names.map((name) => [titles[name], spread(of(name, 0.5)), spread(of(name, 0.99))]),
      ]),
      figures([
        [`p50, Platen / ${titles[better]}`, spread(ratios), '≤ 1', sound ? verdict(median(ratios) <= 1) : 'not sound'],
        [
          'p99, Platen, all rounds together (ms)',
          p99.toFixed(2),
          `≤ ${p99Aim}`,
          sound ? verdict(p99 <= p99Aim) : 'not sound',
        ],
      ]),
    ].join('\n\n'),
    data: { samples, ...measured },
  }
}
