import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { startPostgres } from '../../scripts/postgres.ts'
import { childrenOf } from '../../test/support/children.ts'
import { databaseUrl } from '../../test/support/database-url.ts'

/** The same for all that is compared. Commit times say when a job became claimable, by one clock for all. */
export const settings = {
  fsync: 'on',
  synchronous_commit: 'on',
  shared_buffers: '256MB',
  // Checkpoints come between measurements.
  max_wal_size: '4GB',
  checkpoint_timeout: '30min',
  max_connections: '200',
  track_commit_timestamp: 'on',
}

export interface BenchDatabase extends AsyncDisposable {
  readonly name: string
  readonly url: string
  /** Resolves when nobody is connected: then the server has counted all they did. */
  unused(): Promise<void>
}

/** What was used since the start of the run. */
export interface Counters {
  readonly commits: number
  readonly walBytes: number
  /** Processor time of the server, or null where the system does not say. */
  readonly serverMs: number | null
  /** Processor time of this process. */
  readonly clientMs: number
}

/** One PostgreSQL for everything that is measured, with a database for each measurement. */
export interface Cluster extends AsyncDisposable {
  /** Scratch files of the run. */
  readonly directory: string
  /** Where server and clients run, in words. */
  readonly placement: string
  /** Makes a database that others are cloned from. */
  prepare(name: string, install: (url: string) => Promise<unknown>): Promise<string>
  clone(template: string): Promise<BenchDatabase>
  /** Ends what the server still owes to earlier measurements; what is loaded afterwards has its page images written. */
  checkpoint(): Promise<void>
  counters(database: BenchDatabase): Promise<Counters>
}

const cores = availableParallelism()

const pin = (pid: number, list: string): boolean =>
  spawnSync('taskset', ['--all-tasks', '--cpu-list', '--pid', list, String(pid)], { stdio: 'ignore' }).status === 0

/** The server on one core and all its clients on another, so that both sides have the same in every measurement. */
function place(postmaster: number, cleanup: AsyncDisposableStack): string {
  const pinned =
    process.platform === 'linux' &&
    cores >= 2 &&
    [postmaster, ...childrenOf(postmaster)].every((pid) => pin(pid, '0')) &&
    pin(process.pid, '1')
  if (!pinned) return `not pinned, ${cores} cores`
  cleanup.defer(() => void pin(process.pid, `0-${cores - 1}`))
  return 'PostgreSQL on core 0, all clients on core 1'
}

const ticksPerSecond = 100

/** Clock ticks of a process, and of those who were its children; null once it is gone, or where nobody says. */
function ticksOf(pid: number): { own: number; ended: number } | null {
  try {
    // The second field is the command in brackets, which may hold anything.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
      .map(Number)
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15)
    return { own: user + system, ended: endedUser + endedSystem }
  } catch {
    return null
  }
}

/** Processor time of a process, its children and all who were its children. */
export function processorMs(pid: number): number | null {
  const ticks = ticksOf(pid)
  if (ticks === null) return null
  const living = childrenOf(pid).reduce((sum, child) => sum + (ticksOf(child)?.own ?? 0), 0)
  return ((ticks.own + ticks.ended + living) * 1000) / ticksPerSecond
}

function ownProcessorMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

export async function startCluster(): Promise<Cluster> {
  await using cleanup = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'platen-bench-'))
  cleanup.defer(() => rm(directory, { recursive: true, force: true }))
  // PostgreSQL does not run as root and has to get through.
  await chmod(directory, 0o711)
  const server = await startPostgres({ directory: join(directory, 'postgres'), settings })
  cleanup.defer(server.stop)
  const postmaster = Number(readFileSync(join(server.directory, 'data/postmaster.pid'), 'utf8').split('\n')[0])
  const placement = place(postmaster, cleanup)
  const admin = new pg.Client({ connectionString: server.url })
  await admin.connect()
  cleanup.defer(() => admin.end())
  let clones = 0

  const unused = async (name: string) => {
    for (;;) {
      const { rowCount } = await admin.query(
        `SELECT FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'`,
        [name],
      )
      if (rowCount === 0) return
      await sleep(20)
    }
  }
  const owned = cleanup.move()
  return {
    directory,
    placement,
    prepare: async (name, install) => {
      await admin.query(`CREATE DATABASE ${name}`)
      await install(databaseUrl(server.url, name))
      await unused(name)
      return name
    },
    clone: async (template) => {
      clones += 1
      const name = `bench_${clones}`
      await admin.query(`CREATE DATABASE ${name} TEMPLATE ${template}`)
      return {
        name,
        url: databaseUrl(server.url, name),
        unused: () => unused(name),
        [Symbol.asyncDispose]: async () => void (await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)),
      }
    },
    checkpoint: async () => void (await admin.query('CHECKPOINT')),
    counters: async ({ name }) => {
      const { rows } = await admin.query(
        `SELECT xact_commit::float8 AS commits, (pg_current_wal_lsn() - '0/0')::float8 AS "walBytes"
         FROM pg_stat_database WHERE datname = $1`,
        [name],
      )
      return { ...rows[0], serverMs: processorMs(postmaster), clientMs: ownProcessorMs() }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Runs on a connection of its own. */
export async function connected<T>(url: string, run: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await run(client)
  } finally {
    await client.end()
  }
}

/** What to add to `performance.now()` to have the server's clock, in milliseconds since 1970. */
export async function clockOffset(client: pg.Client): Promise<number> {
  let best = { roundTrip: Number.POSITIVE_INFINITY, offset: 0 }
  for (let number = 0; number < 50; number += 1) {
    const before = performance.now()
    const { rows } = await client.query('SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS now')
    const after = performance.now()
    if (after - before < best.roundTrip)
      best = { roundTrip: after - before, offset: rows[0].now - (before + after) / 2 }
  }
  return best.offset
}
