import { createHash, randomBytes } from 'node:crypto'
import pg from 'pg'
import { pino } from 'pino'
import { type App, type AppOptions, startApp } from '../../../server/src/app.ts'
import { type Deployment, parseDeployment } from '../../../server/src/contexts/distribution/index.ts'
import { createDatabase, type TestDatabase } from '../database.ts'
import { ApiClient } from './api-client.ts'
import { WorkerClient } from './worker-client.ts'

const workerToken = `plw_local.${'w'.repeat(43)}`
const workerDigest = createHash('sha256').update(workerToken).digest('hex')

export interface TestApp extends AsyncDisposable {
  readonly app: App
  readonly database: TestDatabase
  readonly url: string
  readonly deployment: Deployment
  /** A new principal with a token of its own. */
  newUser(name?: string): Promise<ApiClient>
  /** A worker that speaks the protocol by hand; it has no session yet. */
  newWorker(): WorkerClient
  /** Rows of a statement, sent past Core. */
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it asked for
  query(statement: string, values?: readonly unknown[]): Promise<any[]>
  /** Ends Core and starts another, which has another port: {@link TestApp.url} says which. */
  restart(): Promise<App>
  /** Another Core on the same database. */
  newReplica(): Promise<App>
}

export interface TestAppOptions {
  /** Keys of `[limits]`, beside quick reapers. */
  readonly limits?: Readonly<Record<string, number>>
  /** Bounds of one LaTeX attempt. */
  readonly bounds?: Readonly<Record<string, number>>
  readonly offered?: boolean
  /** @default one of its own, on the server that all tests share */
  readonly database?: TestDatabase
  /** Given to Core; see its options. */
  readonly core?: Pick<AppOptions, 'failpoints' | 'interceptors' | 'random'>
}

/** A whole Core on a database of its own, and clients to it over real sockets. */
export async function startTestApp({
  limits = {},
  bounds = {},
  offered = true,
  core = {},
  database: given,
}: TestAppOptions = {}): Promise<TestApp> {
  const database = given ?? (await createDatabase())
  const deployment = parseDeployment(
    [
      '[operations."latex.compile.pdf/v1"]',
      `enabled = ${offered}`,
      ...Object.entries(bounds).map(([key, value]) => `${key} = ${value}`),
      '[workers.local]',
      `token_sha256 = "${workerDigest}"`,
      'operations = ["latex.compile.pdf/v1"]',
      '[limits]',
      ...Object.entries({ reaper_seconds: 0.05, ...limits }).map(([key, value]) => `${key} = ${value}`),
    ].join('\n'),
    'test.toml',
  )
  const secret = randomBytes(32).toString('hex')
  const start = () =>
    startApp({
      databaseUrl: database.url,
      deployment,
      developmentToken: null,
      host: '127.0.0.1',
      log: pino({ level: process.env.PLATEN_TEST_LOG ?? 'silent' }),
      port: 0,
      secret,
      ...core,
    })
  let app = await start()
  const replicas: App[] = []
  const urlOf = ({ port }: App) => `http://127.0.0.1:${port}`
  const direct = new pg.Pool({ connectionString: database.url, max: 4 })
  // A test may end its database.
  direct.on('error', () => {})
  let users = 0
  return {
    get app() {
      return app
    },
    get url() {
      return urlOf(app)
    },
    database,
    deployment,
    newUser: async (name) => {
      users += 1
      const { principal, token } = await app.access.createPrincipal(name ?? `user ${users}`, 'test')
      return new ApiClient(urlOf(app), token, principal.id)
    },
    newWorker: () => new WorkerClient(urlOf(app), workerToken),
    query: async (statement, values = []) => (await direct.query(statement, [...values])).rows,
    restart: async () => {
      await app.close()
      app = await start()
      return app
    },
    newReplica: async () => {
      const replica = await start()
      replicas.push(replica)
      return replica
    },
    [Symbol.asyncDispose]: async () => {
      await direct.end()
      for (const each of [...replicas, app]) await each.close()
      await database[Symbol.asyncDispose]()
    },
  }
}
