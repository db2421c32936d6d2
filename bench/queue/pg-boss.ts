import { PgBoss } from 'pg-boss'
import { connected } from './cluster.ts'
import type { System } from './systems.ts'

const queue = 'job'
const loadedAtOnce = 10_000

const open = async (url: string, slots: number): Promise<PgBoss> => {
  const boss = new PgBoss({ connectionString: url, max: slots + 4, useListenNotify: true, schedule: false })
  boss.on('error', (error) => console.error(`pg-boss: ${error.message}`))
  await boss.start()
  return boss
}
const close = (boss: PgBoss): Promise<void> => boss.stop({ graceful: true, timeout: 20_000 })

/** A table of its own for the queue, and a notification for each job. */
export async function installBoss(url: string): Promise<void> {
  const boss = await open(url, 1)
  await boss.createQueue(queue, { partition: true, notify: true })
  await close(boss)
}

/**
 * Without a burst each worker would take one job in half a second. Its condition is the count of ready jobs as it was
 * cached, which is why this is a new instance after loading.
 */
export async function runBoss(
  url: string,
  slots: number,
  onJob: (data: { readonly n: number }) => void,
): Promise<{ boss: PgBoss; stop: () => Promise<void> }> {
  const boss = await open(url, slots)
  const options = { localConcurrency: slots, batchSize: 1, burstWhenReadyExceeds: 1, pollingIntervalSeconds: 0.5 }
  await boss.work<{ n: number }>(queue, options, async (jobs) => {
    for (const job of jobs) onJob(job.data)
  })
  return { boss, stop: () => close(boss) }
}

/** Adds a job by statements that `execute` sends. */
export const addToBoss = (
  boss: PgBoss,
  n: number,
  execute: (text: string, values?: unknown[]) => Promise<{ rows: unknown[] }>,
): Promise<string | null> => boss.send(queue, { n }, { db: { executeSql: execute as never } })

export const pgBoss = (template: string, jobs: number): System => ({
  name: 'pg-boss',
  template,
  jobs,
  load: async (url, count) => {
    const boss = await open(url, 1)
    for (let first = 0; first < count; first += loadedAtOnce) {
      const length = Math.min(loadedAtOnce, count - first)
      await boss.insert(
        queue,
        Array.from({ length }, (_, index) => ({ data: { n: first + index } })),
      )
    }
    await connected(url, (client) => client.query('VACUUM (ANALYZE)'))
    await boss.getQueueStats(queue, { force: true })
    await close(boss)
  },
  start: async (url, slots, onJob) => {
    const { stop } = await runBoss(url, slots, ({ n }) => onJob(String(n)))
    return { stop: () => stop().then(() => 0) }
  },
  left: (url) =>
    connected(url, async (client) => {
      const { rows } = await client.query(
        `SELECT count(*) FILTER (WHERE state = 'created')::int AS left,
           count(*) FILTER (WHERE state NOT IN ('created', 'completed'))::int AS odd
         FROM pgboss.job WHERE name = $1`,
        [queue],
      )
      const { left, odd } = rows[0]
      return { left, problem: odd === 0 ? null : `${odd} jobs begun and not done` }
    }),
})
