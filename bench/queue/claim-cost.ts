import pg from 'pg'
import { median, quantile } from '../statistics.ts'
import { type Calibration, describeRounds } from './calibration.ts'
import { type Cluster, connected } from './cluster.ts'
import { freeSlotsText, type Limits, newIds, seed, takeNextText, takeNextValues } from './platen.ts'
import { figures, type Part, spread, verdict, whole } from './report.ts'

export interface ClaimCostSizes {
  readonly few: number
  readonly middle: number
  readonly many: number
  /** Jobs that cannot be claimed, before those that can. */
  readonly blocked: number
  /** Claims that are timed, of the few and of the many. */
  readonly samples: number
  readonly rounds: number
  /** No round but the first begins later, by `performance.now()`. */
  readonly until: number
}

const limits: Limits = { activePerRequester: 4, activePerProject: 2 }
const gatherStatistics = async (client: pg.Client): Promise<void> => {
  await client.query('VACUUM (ANALYZE) processing.queue_entry, processing.turn, processing.claim_slot')
  await client.query('ANALYZE processing.job')
}
const session = '00000000-0000-4000-8000-00000000beef'
const manyAim = 1.15
const blockedAim = 1.2
const timeAim = 1.3

/** Shared buffers of one claim, with all it writes; rolled back. */
async function buffersOfOneClaim(url: string): Promise<number> {
  return connected(url, async (client) => {
    const explain = async () => {
      await client.query('BEGIN')
      const { rows } = await client.query(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${takeNextText}`,
        takeNextValues(session, limits),
      )
      await client.query('ROLLBACK')
      const plan = rows[0]['QUERY PLAN'][0].Plan
      return (plan['Shared Hit Blocks'] + plan['Shared Read Blocks']) as number
    }
    // The first of a connection also reads the catalogues.
    await explain()
    return explain()
  })
}

/** Claims until this requester has as many as may be: whatever else waits of it is blocked. */
async function takeAll(client: pg.Client, most: number): Promise<void> {
  for (let number = 0; number < most; number += 1) {
    const { rows } = await client.query(takeNextText, takeNextValues(newIds(1)[0] as string, limits))
    if (rows[0].job_id === null) throw new Error('nothing to claim while a requester is being saturated')
  }
}

/** What stands before the jobs that can be claimed. */
const heads = {
  'one blocked requester, one project': async (client: pg.Client, count: number) => {
    const [requester, project] = newIds(2) as [string, string]
    const before = newIds(limits.activePerRequester)
    await seed(client, { count: before.length, requesters: [requester], projects: [before] })
    await takeAll(client, before.length)
    await seed(client, { count, requesters: [requester], projects: [[project]] })
  },
  'one blocked requester, a project for each job': async (client: pg.Client, count: number) => {
    const [requester] = newIds(1) as [string]
    await seed(client, {
      count: limits.activePerRequester,
      requesters: [requester],
      projects: [newIds(limits.activePerRequester)],
    })
    await takeAll(client, limits.activePerRequester)
    await seed(client, { count, requesters: [requester] })
  },
  'a saturated project of a free requester': async (client: pg.Client, count: number) => {
    const [requester, project] = newIds(2) as [string, string]
    // Others have taken its slots.
    await seed(client, { count: limits.activePerProject, requesters: newIds(1), projects: [[project]] })
    await takeAll(client, limits.activePerProject)
    await seed(client, { count, requesters: [requester], projects: [[project]] })
  },
} as const

/** Requesters who share what waits, each with some projects. */
const fillEvenly = (client: pg.Client, count: number) => {
  const requesters = newIds(5)
  return seed(client, { count, requesters, projects: requesters.map(() => newIds(4)) })
}

/** Milliseconds of claims that are committed; few and many in turn, so that what else happens meets both. */
async function timeClaims(urls: readonly string[], samples: number): Promise<number[][]> {
  const clients = urls.map((url) => new pg.Client({ connectionString: url }))
  await Promise.all(clients.map((client) => client.connect()))
  const times: number[][] = urls.map(() => [])
  for (let sample = -20; sample < samples; sample += 1) {
    for (const [index, client] of clients.entries()) {
      await client.query('BEGIN')
      const began = performance.now()
      await client.query(takeNextText, takeNextValues(session, limits))
      if (sample >= 0) times[index]?.push(performance.now() - began)
      await client.query(freeSlotsText, [session])
      await client.query('COMMIT')
    }
  }
  await Promise.all(clients.map((client) => client.end()))
  return times
}

/** What a claim costs, by how many wait and by what waits before it. */
export async function measureClaimCost(
  cluster: Cluster,
  calibration: Calibration,
  template: string,
  sizes: ClaimCostSizes,
): Promise<Part> {
  const { few, middle, many, blocked, samples, rounds: count, until } = sizes
  // Those that are timed are gone afterwards.
  const spare = (samples + 20) * (count + 3)
  await using small = await cluster.clone(template)
  await using large = await cluster.clone(template)
  const fill = (url: string, jobs: number) => connected(url, (client) => fillEvenly(client, jobs))
  const gather = (url: string) => connected(url, gatherStatistics)
  await fill(small.url, few)
  await gather(small.url)
  const ofFew = await buffersOfOneClaim(small.url)
  await fill(large.url, middle)
  await gather(large.url)
  const ofMiddle = await buffersOfOneClaim(large.url)
  await fill(large.url, many - middle)
  const ofManyStale = await buffersOfOneClaim(large.url)
  await gather(large.url)
  const ofMany = await buffersOfOneClaim(large.url)
  for (const { url } of [small, large]) {
    await fill(url, spare)
    await gather(url)
  }
  await cluster.checkpoint()
  const timed = await calibration.rounds({ name: 'claim time', count, until }, async (checked) => {
    const [fast = [], slow = []] = await checked(() => timeClaims([small.url, large.url], samples))
    return {
      few: { p50: quantile(fast, 0.5), p99: quantile(fast, 0.99) },
      many: { p50: quantile(slow, 0.5), p99: quantile(slow, 0.99) },
    }
  })
  const { results } = timed

  const behind: Record<string, number> = {}
  for (const [name, put] of Object.entries(heads)) {
    await using database = await cluster.clone(template)
    await connected(database.url, async (client) => {
      await put(client, blocked)
      await fillEvenly(client, few)
      await gatherStatistics(client)
    })
    behind[name] = await buffersOfOneClaim(database.url)
  }

  const against = (buffers: number) => `${buffers} (${(buffers / ofFew).toFixed(2)} ×)`
  const p99 = results.map((round) => round.many.p99 / round.few.p99)
  const p50 = results.map((round) => round.many.p50 / round.few.p50)
  return {
    title: 'Claim cost',
    text: [
      `Shared buffers of one claim with all it writes, and its time: few and many in turn, ${samples} claims of each in a round. ${describeRounds(timed)}.`,
      figures([
        [`${whole(few)} queued`, String(ofFew), '', ''],
        [`${whole(middle)} queued`, against(ofMiddle), `≤ ${manyAim} ×`, verdict(ofMiddle <= manyAim * ofFew)],
        [`${whole(many)} queued`, against(ofMany), `≤ ${manyAim} ×`, verdict(ofMany <= manyAim * ofFew)],
        [`${whole(many)} queued, stale statistics`, against(ofManyStale), '', ''],
        ...Object.entries(behind).map(
          ([name, buffers]) =>
            [
              `${whole(few)} queued behind ${whole(blocked)}: ${name}`,
              against(buffers),
              `≤ ${blockedAim} ×`,
              verdict(buffers <= blockedAim * ofFew),
            ] as const,
        ),
        [
          `time at p99, ${whole(many)} / ${whole(few)}`,
          `${spread(p99)} ×`,
          `≤ ${timeAim} ×`,
          verdict(median(p99) <= timeAim),
        ],
        [`time at p50, ${whole(many)} / ${whole(few)}`, `${spread(p50)} ×`, '', ''],
        ['time at p50, few (ms)', spread(results.map((round) => round.few.p50)), '', ''],
        ['time at p99, few (ms)', spread(results.map((round) => round.few.p99)), '', ''],
        ['time at p99, many (ms)', spread(results.map((round) => round.many.p99)), '', ''],
      ]),
    ].join('\n\n'),
    data: { sizes, buffers: { ofFew, ofMiddle, ofMany, ofManyStale, behind }, ...timed },
  }
}
