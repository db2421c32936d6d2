import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../statistics.ts'
import { faultOf } from './block.ts'
import { type Calibration, describeRounds } from './calibration.ts'
import { type Cluster, connected } from './cluster.ts'
import { type Claimed, countLine, Engine, type Limits, newIds, seed } from './platen.ts'
import { figures, type Part, spread, verdict } from './report.ts'

export interface LimitsSizes {
  readonly rounds: number
  /** No round but the first begins later, by `performance.now()`. */
  readonly until: number
  readonly claimers: number
  readonly jobs: number
  readonly warmUpSeconds: number
  readonly seconds: number
}

const requesters = 32
const projectsEach = 2
/** All claimers can have one at once, and no more. */
const narrow: Limits = { activePerRequester: 2, activePerProject: 1 }
const watchMilliseconds = 20
const costAim = 15

interface Busiest {
  requester: number
  project: number
}

/** How many of each run at once, as the claimers themselves know it: from the commit of a claim to the start of its end. */
class Census {
  readonly busiest: Busiest = { requester: 0, project: 0 }
  readonly #counts = new Map<string, number>()

  begin({ requesterId, projectId }: Claimed): void {
    this.busiest.requester = Math.max(this.busiest.requester, this.#add(requesterId, 1))
    this.busiest.project = Math.max(this.busiest.project, this.#add(projectId, 1))
  }

  end({ requesterId, projectId }: Claimed): void {
    this.#add(requesterId, -1)
    this.#add(projectId, -1)
  }

  #add(id: string, by: number): number {
    const count = (this.#counts.get(id) ?? 0) + by
    this.#counts.set(id, count)
    return count
  }
}

interface LimitsBlock {
  readonly jobsPerSecond: number
  readonly busiest: Busiest
  readonly fault: string | null
}

async function runLimits(
  cluster: Cluster,
  template: string,
  limits: Limits,
  { claimers, jobs, warmUpSeconds, seconds }: LimitsSizes,
): Promise<LimitsBlock> {
  await using database = await cluster.clone(template)
  await cluster.checkpoint()
  await connected(database.url, async (client) => {
    const projects = Array.from({ length: requesters }, () => newIds(projectsEach))
    await seed(client, { count: jobs, requesters: newIds(requesters), projects })
    await client.query('VACUUM (ANALYZE) processing.job, processing.queue_entry, processing.turn')
  })
  const engine = await Engine.open(database.url, claimers + 1, limits)
  const census = new Census()
  const handled: string[] = []
  let stopping = false
  const work = async () => {
    const session = await engine.openSession(1)
    while (!stopping) {
      for (const claim of await engine.claim(session, 1)) {
        census.begin(claim)
        handled.push(claim.jobId)
        census.end(claim)
        await engine.finish(claim)
      }
    }
  }
  const working = Array.from({ length: claimers }, work)
  // The other account: what is in the database at one moment.
  const watching = connected(database.url, async (client) => {
    const seen: Busiest = { requester: 0, project: 0 }
    while (!stopping) {
      const { rows } = await client.query(`
        SELECT
          (SELECT coalesce(max(n), 0) FROM (SELECT count(*) n FROM processing.claim_slot GROUP BY requester_id) x)::int AS requester,
          (SELECT coalesce(max(n), 0) FROM (SELECT count(*) n FROM processing.claim_slot GROUP BY project_id) x)::int AS project`)
      seen.requester = Math.max(seen.requester, rows[0].requester)
      seen.project = Math.max(seen.project, rows[0].project)
      await sleep(watchMilliseconds)
    }
    return seen
  })
  await sleep(warmUpSeconds * 1000)
  const [from, began] = [handled.length, performance.now()]
  await sleep(seconds * 1000)
  const jobsPerSecond = ((handled.length - from) / (performance.now() - began)) * 1000
  stopping = true
  const [seen] = await Promise.all([watching, ...working])
  await engine.close()
  const line = await connected(database.url, countLine)
  const sound = line.waiting === line.queued && line.turns === line.queued && line.slots + line.open === 0
  const { requester, project } = census.busiest
  return {
    jobsPerSecond,
    busiest: { requester: Math.max(requester, seen.requester), project: Math.max(project, seen.project) },
    fault: faultOf(jobs, handled, line.queued, sound ? null : JSON.stringify(line)),
  }
}

/** What limits cost when they bind, and whether they are ever passed. */
export async function measureLimits(
  cluster: Cluster,
  calibration: Calibration,
  template: string,
  sizes: LimitsSizes,
): Promise<Part> {
  const { rounds: count, until, claimers } = sizes
  const wide: Limits = { activePerRequester: claimers, activePerProject: claimers }
  const measured = await calibration.rounds({ name: 'limits', count, until }, async (checked) => ({
    off: await checked(() => runLimits(cluster, template, wide, sizes)),
    on: await checked(() => runLimits(cluster, template, narrow, sizes)),
  }))
  const { results } = measured
  const costs = results.map(({ on, off }) => (1 - on.jobsPerSecond / off.jobsPerSecond) * 100)
  const most = {
    requester: Math.max(...results.map(({ on }) => on.busiest.requester)),
    project: Math.max(...results.map(({ on }) => on.busiest.project)),
  }
  const faults = results.flatMap(({ on, off }) => [on.fault ?? [], off.fault ?? []].flat())
  const exact = (seen: number, limit: number) => [String(seen), `≤ ${limit}`, verdict(seen <= limit)] as const
  return {
    title: 'Limits',
    text: [
      `${claimers} claimers at once, ${requesters} requesters with ${projectsEach} projects each; on: ${narrow.activePerRequester} per requester and ${narrow.activePerProject} per project, off: ${claimers} of each. ${describeRounds(measured)}.`,
      ...faults,
      figures([
        [
          'jobs/s, off',
          spread(
            results.map(({ off }) => off.jobsPerSecond),
            0,
          ),
          '',
          '',
        ],
        [
          'jobs/s, on',
          spread(
            results.map(({ on }) => on.jobsPerSecond),
            0,
          ),
          '',
          '',
        ],
        [
          'cost (%)',
          spread(costs, 1),
          `≤ ${costAim}`,
          faults.length === 0 ? verdict(median(costs) <= costAim) : 'not sound',
        ],
        ['most of one requester at once', ...exact(most.requester, narrow.activePerRequester)],
        ['most of one project at once', ...exact(most.project, narrow.activePerProject)],
      ]),
    ].join('\n\n'),
    data: { claimers, narrow, ...measured },
  }
}
