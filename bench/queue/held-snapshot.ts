import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { median, quantile } from '../statistics.ts'
import { faultOf } from './block.ts'
import type { Cluster } from './cluster.ts'
import { connected } from './cluster.ts'
import { countLine, Engine, enterOne, newIds } from './platen.ts'
import { figures, type Part, verdict } from './report.ts'

export interface HeldSizes {
  readonly beforeSeconds: number
  readonly heldSeconds: number
  /** Longest that is waited for the way back. */
  readonly afterSeconds: number
  readonly jobsPerSecond: number
}

const workers = 4
const requesters = 16
const windowMs = 3_000
const worseAim = 5
const backFactor = 1.2
const backAimSeconds = 30

interface Sample {
  /** Since the start. */
  readonly at: number
  readonly ms: number
}

/** Times of claims at p99, of each stretch of the window's length that begins in a second of its own. */
function windows(samples: readonly Sample[], from: number, to: number): { from: number; p99: number }[] {
  const found = []
  for (let start = from; start + windowMs <= to; start += 1000) {
    const times = samples.filter(({ at }) => at >= start && at < start + windowMs).map(({ ms }) => ms)
    if (times.length > 0) found.push({ from: start, p99: quantile(times, 0.99) })
  }
  return found
}

/** A transaction that is left open keeps every dead row; jobs come and go meanwhile. */
export async function measureHeldSnapshot(
  cluster: Cluster,
  template: string,
  { beforeSeconds, heldSeconds, afterSeconds, jobsPerSecond }: HeldSizes,
): Promise<Part> {
  await using database = await cluster.clone(template)
  const engine = await Engine.open(database.url, workers + 1, { activePerRequester: 64, activePerProject: 64 })
  const adding = new pg.Pool({ connectionString: database.url, max: 4 })
  const people = newIds(requesters).map((id) => ({ id, project: newIds(1)[0] as string }))
  const samples: Sample[] = []
  const handled: string[] = []
  const began = performance.now()
  const now = () => performance.now() - began
  let added = 0
  let stopping = false
  const work = async () => {
    const session = await engine.openSession(1)
    while (!stopping || handled.length < added) {
      const found = await engine.claim(session, 1, (ms) => samples.push({ at: now(), ms }))
      for (const claim of found) {
        await engine.finish(claim)
        handled.push(claim.jobId)
      }
    }
  }
  const working = Array.from({ length: workers }, work)
  const add = async () => {
    const pending = new Set<Promise<void>>()
    for (let number = 0; !stopping; number += 1) {
      const { id, project } = people[number % people.length] as (typeof people)[number]
      const entered = enterOne(adding, id, project).then(() => {
        added += 1
        pending.delete(entered)
        engine.wake()
      })
      pending.add(entered)
      await sleep(Math.max(0, ((number + 1) * 1000) / jobsPerSecond - now()))
    }
    await Promise.all(pending)
  }
  const coming = add()

  // The first seconds warm up.
  await sleep(3_000 + beforeSeconds * 1000)
  const heldAt = now()
  const dead = () => connected(database.url, deadRows)
  const holder = new pg.Client({ connectionString: database.url })
  await holder.connect()
  await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await holder.query('SELECT count(*) FROM processing.turn')
  await sleep(heldSeconds * 1000)
  const deadRowsHeld = await dead()
  await holder.query('COMMIT')
  await holder.end()
  const releasedAt = now()
  const usual = median(windows(samples, heldAt - beforeSeconds * 1000, heldAt).map(({ p99 }) => p99))
  const back = () => windows(samples, releasedAt, now()).find(({ p99 }) => p99 <= usual * backFactor)
  while (back() === undefined && now() < releasedAt + afterSeconds * 1000) await sleep(250)
  const backAt = back()
  stopping = true
  await coming
  engine.wake()
  await Promise.all(working)
  await engine.close()
  await adding.end()
  const line = await connected(database.url, countLine)
  const left = line.waiting + line.turns + line.slots + line.open
  const fault = faultOf(added, handled, line.queued, left === 0 ? null : JSON.stringify(line))

  const of = (from: number, to: number) => samples.filter(({ at }) => at >= from && at < to).map(({ ms }) => ms)
  const before = of(heldAt - beforeSeconds * 1000, heldAt)
  const during = of(heldAt, releasedAt)
  const lastThird = of(releasedAt - (heldSeconds * 1000) / 3, releasedAt)
  const p99 = { before: quantile(before, 0.99), during: quantile(during, 0.99), lastThird: quantile(lastThird, 0.99) }
  const p50 = { before: median(before), during: median(during), lastThird: median(lastThird) }
  const worse = p99.lastThird / p99.before
  const backSeconds = backAt === undefined ? null : (backAt.from - releasedAt) / 1000
  return {
    title: 'Held snapshot',
    text: [
      `A REPEATABLE READ transaction stays open for ${heldSeconds} s while ${jobsPerSecond} jobs/s pass (${added} in all); time of the claim statement. Back: the first ${windowMs / 1000} s whose p99 is at most ${backFactor} × the median p99 of as long stretches before.`,
      ...(fault === null ? [] : [fault]),
      figures([
        ['p50 / p99 before (ms)', `${p50.before.toFixed(2)} / ${p99.before.toFixed(2)}`, '', ''],
        ['p50 / p99 while it is held (ms)', `${p50.during.toFixed(2)} / ${p99.during.toFixed(2)}`, '', ''],
        ['p50 / p99 in the last third of it (ms)', `${p50.lastThird.toFixed(2)} / ${p99.lastThird.toFixed(2)}`, '', ''],
        [
          'p99, last third / before',
          `${worse.toFixed(2)} ×`,
          `≤ ${worseAim} ×`,
          fault === null ? verdict(worse <= worseAim) : 'not sound',
        ],
        ['p50, last third / before', `${(p50.lastThird / p50.before).toFixed(2)} ×`, '', ''],
        [
          'back after release (s)',
          backSeconds === null ? `not within ${afterSeconds}` : backSeconds.toFixed(1),
          `≤ ${backAimSeconds}`,
          verdict(backSeconds !== null && backSeconds <= backAimSeconds),
        ],
        ['dead rows of turn, queue_entry, claim_slot when released', deadRowsHeld.join(', '), '', ''],
      ]),
    ].join('\n\n'),
    data: { p50, p99, backSeconds, deadRowsHeld, added, fault, perSecond: perSecond(samples, heldAt, releasedAt) },
  }
}

async function deadRows(client: pg.Client): Promise<number[]> {
  const { rows } = await client.query(
    `SELECT n_dead_tup::int AS dead FROM pg_stat_user_tables
     WHERE schemaname = 'processing' AND relname = ANY ($1) ORDER BY array_position($1, relname::text)`,
    [['turn', 'queue_entry', 'claim_slot']],
  )
  return rows.map((row) => row.dead)
}

/** The course of it, for whoever wants to draw it. */
function perSecond(samples: readonly Sample[], heldAt: number, releasedAt: number) {
  const seconds = new Map<number, number[]>()
  for (const { at, ms } of samples) {
    const second = Math.floor((at - heldAt) / 1000)
    seconds.set(second, [...(seconds.get(second) ?? []), ms])
  }
  return {
    releasedAfterSeconds: (releasedAt - heldAt) / 1000,
    seconds: [...seconds].map(([second, times]) => ({ second, p50: median(times), max: Math.max(...times) })),
  }
}
