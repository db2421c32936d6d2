import { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Logger, makeWorkerUtils, type Runner, run, runMigrations } from 'graphile-worker'
import type pg from 'pg'
import { connected } from './cluster.ts'
import type { System } from './systems.ts'

const task = 'job'
const logger = new Logger(() => () => {})
const loadedAtOnce = 10_000

export const installGraphile = (url: string): Promise<void> => runMigrations({ connectionString: url, logger })

/** Claims and completions of many jobs at once, or of each by itself. */
export interface Batching {
  readonly localQueueSize: number
  readonly completeJobBatchDelay: number
}
export const unbatched: Batching = { localQueueSize: -1, completeJobBatchDelay: -1 }
export const batched: Batching = { localQueueSize: 500, completeJobBatchDelay: 0 }

export function runGraphile(
  url: string,
  slots: number,
  { localQueueSize: size, completeJobBatchDelay }: Batching,
  onJob: (payload: { readonly n: number }) => void,
): Promise<Runner> {
  const events = new EventEmitter()
  // One listener a slot is no leak.
  events.setMaxListeners(0)
  return run({
    connectionString: url,
    concurrency: slots,
    maxPoolSize: slots + 4,
    logger,
    events: events as never,
    noHandleSignals: true,
    parsedCronItems: [],
    preset: { worker: { localQueue: { size }, completeJobBatchDelay, concurrentJobs: slots, maxPoolSize: slots + 4 } },
    taskList: { [task]: async (payload) => onJob(payload as { n: number }) },
  })
}

/** Adds a job in the caller's transaction. */
export const addToGraphile = (client: pg.Client, n: number): Promise<unknown> =>
  client.query('SELECT graphile_worker.add_job($1, $2::json)', [task, JSON.stringify({ n })])

export const graphile = (template: string, jobs: number, batching: Batching): System => ({
  name: batching === unbatched ? 'graphile-worker, unbatched' : 'graphile-worker, batched',
  template,
  jobs,
  load: async (url, count) => {
    const utils = await makeWorkerUtils({ connectionString: url, logger })
    for (let first = 0; first < count; first += loadedAtOnce) {
      const length = Math.min(loadedAtOnce, count - first)
      await utils.addJobs(Array.from({ length }, (_, index) => ({ identifier: task, payload: { n: first + index } })))
    }
    await utils.release()
    await connected(url, (client) => client.query('VACUUM (ANALYZE)'))
  },
  start: async (url, slots, onJob) => {
    const runner = await runGraphile(url, slots, batching, ({ n }) => onJob(String(n)))
    return {
      stop: async () => {
        // Stopped while it runs jobs, it leaves these locked: it is made to run none first.
        const walBytes = await connected(url, async (client) => {
          const { rows } = await client.query(
            `EXPLAIN (ANALYZE, WAL, FORMAT JSON)
             UPDATE graphile_worker._private_jobs SET run_at = now() + interval '1 day' WHERE locked_at IS NULL`,
          )
          const locked = 'SELECT FROM graphile_worker._private_jobs WHERE locked_at IS NOT NULL LIMIT 1'
          while ((await client.query(locked)).rowCount !== 0) await sleep(20)
          return rows[0]['QUERY PLAN'][0].Plan['WAL Bytes'] as number
        })
        await runner.stop()
        return walBytes
      },
    }
  },
  left: (url) =>
    connected(url, async (client) => {
      const { rows } = await client.query(
        `SELECT count(*)::int AS left, count(*) FILTER (WHERE locked_at IS NOT NULL OR attempts > 0)::int AS odd
         FROM graphile_worker._private_jobs`,
      )
      const { left, odd } = rows[0]
      return { left, problem: odd === 0 ? null : `${odd} jobs begun and not done` }
    }),
})
