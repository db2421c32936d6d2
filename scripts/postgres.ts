import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chownSync, closeSync, existsSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { LaunchError } from './launch-error.ts'
import { type PostgresHome, preparePostgresHome } from './postgres-home.ts'
import { commandLine, dyingWithParent, endProcess, freePort, isAlive, until } from './processes.ts'

export interface PostgresOptions {
  /** Everything of this server is kept in it; created if absent. A directory serves one server at a time. */
  readonly directory: string
  /** Called when the server ends without having been told to, with a sentence. */
  readonly onExit?: (reason: string) => void
  /** Server settings, as in postgresql.conf. */
  readonly settings?: Readonly<Record<string, string>>
  /** Where remarks go, one line each. @default standard error */
  readonly say?: (line: string) => void
}

export interface Postgres {
  /** Of the database `platen`, with its owner's password in it. */
  readonly url: string
  /** Where its files really are: elsewhere than asked for if PostgreSQL's account could not get there. */
  readonly directory: string
  /** Fast shutdown: open transactions are rolled back. Resolves when the process is gone. */
  stop(): Promise<void>
}

/** A start from a crash may have to replay a long log. */
const startTimeoutMs = 60_000
const stopPatienceMs = 20_000
const portTries = 5

const dataDirectory = (home: PostgresHome) => join(home.directory, 'data')
const logFile = (home: PostgresHome) => join(home.directory, 'postgres.log')
const passwordFile = (home: PostgresHome) => join(home.directory, 'password')
const pidFile = (home: PostgresHome) => join(dataDirectory(home), 'postmaster.pid')

function logTail(home: PostgresHome): string {
  const lines = readFileSync(logFile(home), 'utf8').trimEnd().split('\n')
  return lines.slice(-5).join('\n')
}

/** LD_LIBRARY_PATH and the like of the caller are none of PostgreSQL's business, nor are the PG* variables. */
const cleanEnvironment = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

function runInitdb(home: PostgresHome, target: string, durable: boolean): void {
  const { status, stderr, error } = spawnSync(
    join(home.binaries, 'initdb'),
    [
      `--pgdata=${target}`,
      '--username=platen',
      `--pwfile=${passwordFile(home)}`,
      '--auth=scram-sha-256',
      // The password is 256 random bits: stretching it would only slow down each connection.
      '--set=scram_iterations=1',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      ...(durable ? [] : ['--no-sync']),
    ],
    { ...home.account, cwd: home.directory, env: cleanEnvironment, encoding: 'utf8' },
  )
  if (status === 0) return
  rmSync(target, { recursive: true, force: true })
  const reason = error?.message ?? stderr.trim().split('\n').slice(-3).join(' ')
  throw new LaunchError(`PostgreSQL could not create its data directory in ${home.directory}: ${reason}`)
}

/** initdb works beside the final place and one rename ends it, so an interrupted one leaves nothing that looks whole. */
function ensureDataDirectory(home: PostgresHome, durable: boolean): void {
  const data = dataDirectory(home)
  const partial = `${data}.new`
  rmSync(partial, { recursive: true, force: true })
  if (existsSync(data)) {
    if (existsSync(join(data, 'PG_VERSION')) && existsSync(join(data, 'global', 'pg_control'))) {
      assertVersion(home)
      return
    }
    throw new LaunchError(
      `${data} is not a complete PostgreSQL data directory. If nothing in it matters, remove it and start again: rm -r ${data}`,
    )
  }
  writeFileSync(passwordFile(home), randomBytes(32).toString('base64url'), { mode: 0o600 })
  if (home.account) chownSync(passwordFile(home), home.account.uid, home.account.gid)
  runInitdb(home, partial, durable)
  renameSync(partial, data)
}

function assertVersion(home: PostgresHome): void {
  const version = readFileSync(join(dataDirectory(home), 'PG_VERSION'), 'utf8').trim()
  const { stdout } = spawnSync(join(home.binaries, 'postgres'), ['--version'], {
    encoding: 'utf8',
    env: cleanEnvironment,
  })
  const major = /(\d+)[.\d]*\s*$/.exec((stdout ?? '').trim())?.[1] ?? /\s(\d+)/.exec(stdout ?? '')?.[1]
  if (major !== undefined && major !== version) {
    throw new LaunchError(
      `The data in ${dataDirectory(home)} is of PostgreSQL ${version}, the installed one is ${major}. Dump it with the old version and load it into the new one, or remove the directory to start empty.`,
    )
  }
}

/** A server of this directory that its launcher left behind (killed, crashed) is ended; a stale pid file goes. */
async function endLeftover(home: PostgresHome): Promise<void> {
  if (!existsSync(pidFile(home))) return
  const pid = Number(readFileSync(pidFile(home), 'utf8').split('\n')[0])
  const ours = Number.isInteger(pid) && pid > 0 && commandLine(pid)?.includes(dataDirectory(home))
  if (ours) await endProcess(pid, 'SIGINT', stopPatienceMs)
  // The pid may meanwhile be another program's; PostgreSQL itself would then refuse to start.
  rmSync(pidFile(home), { force: true })
}

function spawnServer(home: PostgresHome, port: number, settings: Readonly<Record<string, string>>): ChildProcess {
  const log = openSync(logFile(home), 'w', 0o600)
  const all = { listen_addresses: '127.0.0.1', unix_socket_directories: '', port: String(port), ...settings }
  const parameters = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const [command, args] = dyingWithParent('INT', join(home.binaries, 'postgres'), [
    '-D',
    dataDirectory(home),
    ...parameters,
  ])
  // Its own process group: Ctrl-C in the terminal must reach Core first and the database last.
  const options = { ...home.account, cwd: home.directory, env: cleanEnvironment, detached: true }
  const child = spawn(command, args, { ...options, stdio: ['ignore', log, log] })
  closeSync(log)
  return child
}

/** The last line of the pid file tells the server's state; this is what pg_ctl waits for too. */
function isReady(home: PostgresHome, child: ChildProcess): boolean {
  if (!existsSync(pidFile(home))) return false
  const lines = readFileSync(pidFile(home), 'utf8').split('\n')
  return lines[0] === String(child.pid) && lines[7]?.trim() === 'ready'
}

async function startServer(
  home: PostgresHome,
  settings: Readonly<Record<string, string>>,
): Promise<{ child: ChildProcess; port: number }> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort()
    const child = spawnServer(home, port, settings)
    let spawnError: Error | undefined
    child.on('error', (error) => {
      spawnError = error
    })
    const ended = () => spawnError !== undefined || child.exitCode !== null || child.signalCode !== null
    await until(() => ended() || isReady(home, child), startTimeoutMs)
    if (!ended() && isReady(home, child)) return { child, port }
    if (!ended() && child.pid !== undefined) await endProcess(child.pid, 'SIGINT', 1_000)
    const tail = spawnError?.message ?? logTail(home)
    if (!/could not create any TCP\/IP sockets/.test(tail) || attempt === portTries) {
      throw new LaunchError(`PostgreSQL did not start from ${home.directory}. The end of its log:\n${tail}`)
    }
  }
}

async function ensureDatabase(adminUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl })
  await client.connect()
  try {
    const { rowCount } = await client.query(`SELECT FROM pg_database WHERE datname = 'platen'`)
    if (rowCount === 0) await client.query('CREATE DATABASE platen')
  } finally {
    await client.end()
  }
}

/**
 * Starts the PostgreSQL that comes as an npm package, on a free port of 127.0.0.1, as user nobody when called by root.
 * Ends a server that an earlier, killed launcher left on the same directory.
 *
 * @throws {LaunchError} one sentence that says what to do
 */
export async function startPostgres({
  directory,
  onExit,
  settings = {},
  say = console.error,
}: PostgresOptions): Promise<Postgres> {
  const home = preparePostgresHome(directory, say)
  ensureDataDirectory(home, settings.fsync !== 'off')
  await endLeftover(home)
  const { child, port } = await startServer(home, settings)
  let stopping = false
  child.once('exit', () => {
    if (!stopping) onExit?.(`PostgreSQL ended. The end of its log (${logFile(home)}):\n${logTail(home)}`)
  })
  const password = readFileSync(passwordFile(home), 'utf8')
  const url = (database: string) => `postgresql://platen:${password}@127.0.0.1:${port}/${database}`
  const stop = async () => {
    stopping = true
    if (child.pid !== undefined && isAlive(child.pid)) await endProcess(child.pid, 'SIGINT', stopPatienceMs)
  }
  try {
    await ensureDatabase(url('postgres'))
  } catch (cause) {
    await stop()
    throw new LaunchError(
      `PostgreSQL in ${home.directory} refused the connection: ${(cause as Error).message}. If its password file was lost, remove the directory to start empty.`,
      { cause },
    )
  }
  return { url: url('platen'), directory: home.directory, stop }
}
