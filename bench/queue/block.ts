import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster, Counters } from './cluster.ts'
import type { System } from './systems.ts'

export interface Times {
  readonly warmUpSeconds: number
  readonly seconds: number
}

export interface Block {
  readonly jobsPerSecond: number
  readonly commitsPerJob: number
  readonly walBytesPerJob: number
  /** Processor time; null where the system does not say. */
  readonly serverMsPerJob: number | null
  readonly clientMsPerJob: number
  /** Why the speed does not count: jobs were lost or doubled. */
  readonly fault: string | null
}

const longestStartSeconds = 20

/** What went in and did not come out, or did twice. */
export function faultOf(loaded: number, handled: readonly string[], left: number, problem: string | null) {
  const once = new Set(handled).size
  const faults = [
    ...(handled.length > once ? [`${handled.length - once} doubled`] : []),
    ...(once + left < loaded ? [`${loaded - once - left} lost`] : []),
    ...(once + left > loaded ? [`${once + left - loaded} handled and still there`] : []),
    ...(problem === null ? [] : [problem]),
  ]
  return faults.length === 0 ? null : faults.join(', ')
}

export const perJob = (before: Counters, after: Counters, jobs: number) => ({
  commitsPerJob: (after.commits - before.commits) / jobs,
  walBytesPerJob: (after.walBytes - before.walBytes) / jobs,
  serverMsPerJob:
    before.serverMs === null || after.serverMs === null ? null : (after.serverMs - before.serverMs) / jobs,
  clientMsPerJob: (after.clientMs - before.clientMs) / jobs,
})

/** One block of a system: a fresh database, more jobs than it can do, and the speed of the middle. */
export async function runBlock(
  cluster: Cluster,
  system: System,
  slots: number,
  { warmUpSeconds, seconds }: Times,
): Promise<Block> {
  await using database = await cluster.clone(system.template)
  await cluster.checkpoint()
  await system.load(database.url, system.jobs)
  await database.unused()
  const before = await cluster.counters(database)
  const handled: string[] = []
  const first = Promise.withResolvers<void>()
  const last = Promise.withResolvers<void>()
  const running = await system.start(database.url, slots, (id) => {
    handled.push(id)
    first.resolve()
    if (handled.length >= system.jobs) last.resolve()
  })
  await Promise.race([first.promise, sleep(longestStartSeconds * 1000)])
  await Promise.race([last.promise, sleep(warmUpSeconds * 1000)])
  const [from, began] = [handled.length, performance.now()]
  // A system that does all of them earlier is measured until then.
  await Promise.race([last.promise, sleep(seconds * 1000)])
  const jobsPerSecond = ((handled.length - from) / (performance.now() - began)) * 1000
  const stoppingWalBytes = await running.stop()
  await database.unused()
  const after = await cluster.counters(database)
  const { left, problem } = await system.left(database.url)
  return {
    jobsPerSecond,
    ...perJob(before, after, handled.length),
    walBytesPerJob: (after.walBytes - before.walBytes - stoppingWalBytes) / handled.length,
    fault: faultOf(system.jobs, handled, left, problem),
  }
}
