import { type ChildProcess, fork } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Postgres, startPostgres } from '../../scripts/postgres.ts'
import { freePort } from '../../scripts/processes.ts'
import { repositoryRoot } from '../support/repository.ts'
import { DatabaseProxy } from './database-proxy.ts'
import { FaultyProxy } from './http-proxy.ts'

export const limits = { activePerRequester: 3, activePerProject: 2, leaseSeconds: 3, attempts: 8, slots: 3 } as const
const replicas = 2
const workerCount = 5

export interface Member {
  readonly kind: 'core' | 'worker'
  readonly index: number
  child: ChildProcess | null
  /** Resolves when the one that runs now has said that it is ready, or has ended. */
  ready: Promise<void>
}

/** PostgreSQL, two Cores and five workers as processes, each started again whenever it is gone. */
export class SoakStack implements AsyncDisposable {
  readonly directory: string
  readonly database = new DatabaseProxy()
  readonly members: Member[] = []
  readonly proxies: FaultyProxy[] = []
  readonly random: () => number
  /** Members that ended by themselves after they were ready; nothing that happens to them is a reason to. */
  readonly crashes: string[] = []
  /** Text of failpoints for the next start of a member. */
  failpointsFor: (member: Member) => string = () => ''
  #corePorts: number[] = []
  #postgres: Postgres | null = null
  #lastUrl = ''
  #stopping = false
  readonly #secret = randomBytes(32).toString('hex')
  readonly #workerToken = `plw_local.${randomBytes(32).toString('base64url')}`
  readonly developmentToken = `pl_${randomBytes(32).toString('base64url')}`

  private constructor(directory: string, random: () => number) {
    this.directory = directory
    this.random = random
  }

  static async start(random: () => number): Promise<SoakStack> {
    const directory = await mkdtemp(join(tmpdir(), 'platen-soak-'))
    await chmod(directory, 0o711)
    const stack = new SoakStack(directory, random)
    await stack.#writeDeployment()
    await stack.startDatabase()
    for (let index = 0; index < replicas; index += 1) {
      stack.#corePorts.push(await freePort())
      stack.#add('core', index)
      // One migrates, the others find it done.
      await stack.members.at(-1)?.ready
    }
    for (let index = 0; index < workerCount; index += 1) {
      const proxy = new FaultyProxy(
        () => stack.#corePorts[index % replicas] as number,
        { lostRequest: 0, lostAnswer: 0, doubled: 0 },
        random,
      )
      stack.proxies.push(proxy)
      const port = await proxy.open()
      stack.#add('worker', index, port)
    }
    return stack
  }

  get urls(): readonly string[] {
    return this.#corePorts.map((port) => `http://127.0.0.1:${port}`)
  }

  get url(): string {
    return this.urls[Math.floor(this.random() * replicas)] as string
  }

  /** Past the proxy, to the server that runs now. */
  get directUrl(): string {
    if (!this.#postgres) throw new Error('PostgreSQL does not run')
    return this.#postgres.url
  }

  async query<Row extends pg.QueryResultRow>(statement: string, values: readonly unknown[] = []): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.directUrl })
    await client.connect()
    try {
      return (await client.query<Row>(statement, [...values])).rows
    } finally {
      await client.end()
    }
  }

  async startDatabase(): Promise<void> {
    this.#postgres = await startPostgres({
      directory: join(this.directory, 'postgres'),
      settings: { max_connections: '80', shared_buffers: '128MB' },
      say: () => {},
    })
    this.#lastUrl = this.#postgres.url
    await this.database.up(Number(new URL(this.#postgres.url).port))
  }

  /** The postmaster is gone without a word, and after a while another starts from its log. */
  async killDatabase(awayMilliseconds: number): Promise<void> {
    if (!this.#postgres) return
    const [pid = ''] = (await readFile(join(this.#postgres.directory, 'data/postmaster.pid'), 'utf8')).split('\n')
    this.#postgres = null
    process.kill(Number(pid), 'SIGKILL')
    this.database.down()
    await sleep(awayMilliseconds)
    await this.startDatabase()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping = true
    for (const { child } of this.members) child?.kill('SIGKILL')
    for (const proxy of this.proxies) proxy.close()
    this.database.down()
    await this.#postgres?.stop()
    await rm(this.directory, { recursive: true, force: true })
  }

  #add(kind: Member['kind'], index: number, port = 0): void {
    const member: Member = { kind, index, child: null, ready: Promise.resolve() }
    this.members.push(member)
    const keep = async () => {
      while (!this.#stopping) {
        const child = kind === 'core' ? this.#forkCore(member) : this.#forkWorker(member, port)
        const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
        let ready = false
        const said = new Promise<void>((resolve) =>
          child.on('message', () => {
            ready = true
            resolve()
          }),
        )
        member.child = child
        member.ready = Promise.race([ended, said])
        await ended
        if (ready && child.exitCode !== null && !this.#stopping) {
          this.crashes.push(`${kind} ${index} ended by itself, with status ${child.exitCode}`)
        }
        member.child = null
        await sleep(200 + this.random() * 500)
      }
    }
    void keep()
  }

  #forkCore(member: Member): ChildProcess {
    // Also while it is away: then Core says so and ends, and the next one tries again.
    const url = new URL(this.#lastUrl)
    url.port = String(this.database.port)
    const failpoints = this.failpointsFor(member)
    return fork(join(repositoryRoot, 'server/src/main.ts'), {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: {
        PATH: process.env.PATH,
        DATABASE_URL: url.href,
        PORT: String(this.#corePorts[member.index]),
        PLATEN_CONFIG: join(this.directory, 'platen.toml'),
        PLATEN_SECRET: this.#secret,
        PLATEN_DEV_TOKEN: this.developmentToken,
        LOG_LEVEL: 'silent',
        ...(failpoints === '' ? {} : { PLATEN_FAILPOINTS: failpoints }),
      },
    })
  }

  #forkWorker(member: Member, port: number): ChildProcess {
    return fork(join(repositoryRoot, 'test/soak/worker.ts'), {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: {
        PATH: process.env.PATH,
        TMPDIR: this.directory,
        SOAK_CORE_URL: `http://127.0.0.1:${port}`,
        SOAK_WORKER_TOKEN: this.#workerToken,
        SOAK_FAILPOINTS: this.failpointsFor(member),
      },
    })
  }

  async #writeDeployment(): Promise<void> {
    const digest = createHash('sha256').update(this.#workerToken).digest('hex')
    await writeFile(
      join(this.directory, 'platen.toml'),
      `[operations."latex.compile.pdf/v1"]
[workers.local]
token_sha256 = "${digest}"
operations = ["latex.compile.pdf/v1"]
[limits]
lease_seconds = ${limits.leaseSeconds}
active_per_requester = ${limits.activePerRequester}
active_per_project = ${limits.activePerProject}
attempts = ${limits.attempts}
queued_jobs = 60
session_heartbeat_seconds = 1
acquire_wait_seconds = 5
reaper_seconds = 0.3
sweep_seconds = 2
finalization_seconds = 3
preparer_seconds = 3
prepare_seconds = 120
retry_backoff_seconds = 0.2
blob_grace_seconds = 10
blob_write_seconds = 20
worker_request_seconds = 60
database_pool_size = 10
`,
    )
  }
}
