import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endLeftOverParts, rememberPart } from './left-over-parts.ts'
import { type Part, type PartOptions, startPart } from './part.ts'
import { startPostgres } from './postgres.ts'
import { assertDatabaseAnswers, assertPortFree } from './preconditions.ts'
import { holdAlone } from './single-start.ts'
import { openState, type State } from './state.ts'

export interface StackOptions {
  /** Secrets, database, configuration and logs; made if absent. One stack at a time runs on it. */
  readonly directory: string
  /** TCP port of Core; 0 takes a free one. */
  readonly port: number
  /** Address Core listens on. @default 127.0.0.1 */
  readonly host?: string
  /** PostgreSQL 15 or newer. @default an embedded one in `directory` */
  readonly databaseUrl?: string
  /** Whether a local worker is started too. @default true */
  readonly worker?: boolean
  /** Added to the environment of both processes. */
  readonly env?: Readonly<Record<string, string>>
  /** What runs instead of Platen's own programs; for the launcher's tests. */
  readonly programs?: { readonly core: string; readonly worker: string }
  /** Ends a start that is under way; the promise then rejects with the signal's reason. */
  readonly signal?: AbortSignal
  /** Where remarks go, one line each. @default standard error */
  readonly say?: (line: string) => void
}

/** A running Platen: database, Core and, unless told otherwise, one worker. */
export interface Stack extends AsyncDisposable {
  /** Of Core, without a slash at the end. */
  readonly url: string
  /** The development principal's API token. */
  readonly token: string
  readonly databaseUrl: string
  readonly core: Part
  /** The worker that was started with the stack. */
  readonly worker: Part | undefined
  /** Why work waits although the worker runs, in its own words; empty if nothing does. */
  readonly waitingReasons: readonly string[]
  readonly logFiles: { readonly core: string; readonly worker: string }
  /** Starts another worker, e.g. after the first has been killed. The stack stops it too. */
  startWorker(): Promise<Part>
  /** Resolves when a part ends that was not told to, with a sentence that names it. */
  readonly broken: Promise<string>
  /** Stops what runs, in order: workers, Core, database. */
  stop(): Promise<void>
}

const localhost = '127.0.0.1'
const root = fileURLToPath(new URL('../', import.meta.url))
const programs = { core: join(root, 'server/src/main.ts'), worker: join(root, 'worker/src/main.ts') }

/** What Core alone may know does not reach the worker by way of the launcher's environment. */
function workerEnvironment(): NodeJS.ProcessEnv {
  const kept = { ...process.env }
  for (const name of ['DATABASE_URL', 'PLATEN_SECRET', 'PLATEN_DEV_TOKEN', 'PLATEN_CONFIG', 'PLATEN_TOKEN'])
    delete kept[name]
  return kept
}

const waitingReasonsOf = (worker: Part | undefined): string[] => {
  const reasons = worker?.message.reasons
  return Array.isArray(reasons) ? reasons.map(String) : []
}

interface Launch {
  readonly options: StackOptions
  readonly state: State
  readonly started: AsyncDisposableStack
  readonly broken: PromiseWithResolvers<string>
}

const logFile = (launch: Launch, name: 'core' | 'worker') => join(launch.state.directory, `${name}.log`)

async function openDatabase({ options, state, started, broken }: Launch): Promise<string> {
  if (options.databaseUrl !== undefined) {
    await assertDatabaseAnswers(options.databaseUrl)
    return options.databaseUrl
  }
  const postgres = await startPostgres({
    directory: join(state.directory, 'postgres'),
    onExit: broken.resolve,
    ...(options.say ? { say: options.say } : {}),
  })
  started.defer(postgres.stop)
  return postgres.url
}

async function run(
  { options, state, started, broken }: Launch,
  part: Omit<PartOptions, 'cwd' | 'signal'>,
): Promise<Part> {
  const env = { NODE_ENV: 'development', ...part.env, ...options.env }
  const running = await startPart({ ...part, cwd: root, env, ...(options.signal ? { signal: options.signal } : {}) })
  rememberPart(state.directory, running.pid)
  let stopping = false
  void running.ended.then((reason) => {
    if (!stopping) broken.resolve(reason)
  })
  started.defer(() => {
    stopping = true
    return running.stop()
  })
  return running
}

const startCore = (launch: Launch, databaseUrl: string): Promise<Part> =>
  run(launch, {
    name: 'Core',
    program: (launch.options.programs ?? programs).core,
    logFile: logFile(launch, 'core'),
    readyTypes: ['ready'],
    // Migrations of a large database are part of it.
    readyTimeoutMs: 300_000,
    env: {
      ...process.env,
      DATABASE_URL: databaseUrl,
      HOST: launch.options.host ?? localhost,
      PORT: String(launch.options.port),
      PLATEN_CONFIG: launch.state.configFile,
      PLATEN_SECRET: launch.state.secret,
      PLATEN_DEV_TOKEN: launch.state.token,
    },
  })

const startWorker = (launch: Launch, coreUrl: string): Promise<Part> =>
  run(launch, {
    name: 'The worker',
    program: (launch.options.programs ?? programs).worker,
    logFile: logFile(launch, 'worker'),
    readyTypes: ['ready', 'waiting'],
    readyTimeoutMs: 120_000,
    env: {
      // Who presses Ctrl-C waits for it; what is cut off is repeated by the next start.
      PLATEN_DRAIN_SECONDS: '5',
      ...workerEnvironment(),
      PLATEN_CORE_URL: coreUrl,
      PLATEN_WORKER_TOKEN: launch.state.workerToken,
    },
  })

async function startAll(launch: Launch): Promise<Stack> {
  const { options, state, started, broken } = launch
  started.defer(holdAlone(state.directory))
  await endLeftOverParts(state.directory)
  if (options.port !== 0) await assertPortFree(options.port, options.host ?? localhost)
  const databaseUrl = await openDatabase(launch)
  const core = await startCore(launch, databaseUrl)
  const url = `http://${localhost}:${core.message.port}`
  const worker = options.worker === false ? undefined : await startWorker(launch, url)
  const stop = () => started.disposeAsync()
  return {
    url,
    token: state.token,
    databaseUrl,
    core,
    worker,
    waitingReasons: waitingReasonsOf(worker),
    logFiles: { core: logFile(launch, 'core'), worker: logFile(launch, 'worker') },
    startWorker: () => startWorker(launch, url),
    broken: broken.promise,
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

/**
 * Starts a whole Platen on the state in `options.directory`; what was started is stopped again if a later step fails.
 *
 * @throws {LaunchError} one sentence that says what to do
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const launch: Launch = {
    options,
    state: openState(options.directory),
    started: new AsyncDisposableStack(),
    broken: Promise.withResolvers<string>(),
  }
  try {
    return await startAll(launch)
  } catch (error) {
    await launch.started.disposeAsync()
    throw error
  }
}
