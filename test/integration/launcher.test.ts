import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { expect, test } from 'vitest'
import { rememberPart } from '../../scripts/left-over-parts.ts'
import { startPostgres } from '../../scripts/postgres.ts'
import { isAlive, until } from '../../scripts/processes.ts'
import { type StackOptions, startStack } from '../../scripts/stack.ts'
import { createDatabase } from '../support/database.ts'

const standIn = (name: string) => fileURLToPath(new URL(`../support/launcher/${name}.ts`, import.meta.url))
const programs = { core: standIn('core'), worker: standIn('worker') }

async function temporaryDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'platen-launcher-'))
  await chmod(path, 0o711)
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

/** A stack of stand-ins on a database of its own, so that only the launcher is looked at. */
async function setup(options: Partial<StackOptions> = {}) {
  const cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory()).path
  const database = cleanup.use(await createDatabase())
  const start = async (more: Partial<StackOptions> = {}) =>
    startStack({ directory, port: 0, databaseUrl: database.url, programs, ...options, ...more })
  return { directory, database, start, [Symbol.asyncDispose]: () => cleanup.disposeAsync() }
}

const refusal = (promise: Promise<unknown>) =>
  promise.then(
    () => 'it started',
    (error: Error) => `${error.name}: ${error.message}`,
  )

test('Core gets database, configuration, secret and development token; a second start gives it the same ones', async () => {
  await using context = await setup()
  const environment = async () => {
    await using stack = await context.start()
    return (await (await fetch(stack.url)).json()) as Record<string, string>
  }
  const first = await environment()
  expect(first.DATABASE_URL).toBe(context.database.url)
  expect(first.PLATEN_DEV_TOKEN).toMatch(/^pl_[\w-]{43}$/)
  expect(first.PLATEN_SECRET).toMatch(/^[\w-]{43}$/)
  const second = await environment()
  expect(second).toMatchObject({ PLATEN_SECRET: first.PLATEN_SECRET, PLATEN_DEV_TOKEN: first.PLATEN_DEV_TOKEN })
})

test('the configuration names the digest of the worker token and is never overwritten', async () => {
  await using context = await setup()
  await (await context.start()).stop()
  const token = (await readFile(join(context.directory, 'worker-token'), 'utf8')).trim()
  expect(token).toMatch(/^plw_local\.[\w-]{43}$/)
  const file = join(context.directory, 'platen.toml')
  const digest = createHash('sha256').update(token).digest('hex')
  expect(await readFile(file, 'utf8')).toContain(`token_sha256 = "${digest}"`)
  const changed = `# mine\n[workers.local]\ntoken_sha256 = "${digest}"\noperations = []\n`
  await writeFile(file, changed)
  await (await context.start()).stop()
  expect(await readFile(file, 'utf8')).toBe(changed)
})

test('a configuration without the worker token is refused with the line to put in', async () => {
  await using context = await setup()
  await writeFile(join(context.directory, 'platen.toml'), '[workers]\n')
  expect(await refusal(context.start())).toMatch(
    /^LaunchError: .*platen\.toml does not know .*token_sha256 = "[0-9a-f]{64}"/,
  )
})

test('secrets are readable by their owner alone', async () => {
  await using context = await setup()
  await (await context.start()).stop()
  for (const name of ['secret', 'token', 'worker-token', 'platen.toml']) {
    expect((await stat(join(context.directory, name))).mode & 0o077).toBe(0)
  }
})

test('the worker does not learn what only Core may know', async () => {
  process.env.PLATEN_SECRET = 'of the shell'
  try {
    await using context = await setup()
    await (await context.start()).stop()
    const log = await readFile(join(context.directory, 'worker.log'), 'utf8')
    const line = log.split('\n').find((each) => each.startsWith('worker environment ')) ?? ''
    const environment = JSON.parse(line.slice('worker environment '.length))
    expect(environment).toHaveProperty('PLATEN_WORKER_TOKEN')
    for (const name of ['DATABASE_URL', 'PLATEN_SECRET', 'PLATEN_DEV_TOKEN', 'PLATEN_CONFIG']) {
      expect(environment).not.toHaveProperty(name)
    }
  } finally {
    delete process.env.PLATEN_SECRET
  }
})

test('a worker that waits does not keep Platen from starting; its reasons are told', async () => {
  await using context = await setup()
  await using stack = await context.start({ env: { WISH: 'wait' } })
  expect(stack.waitingReasons).toEqual(['xelatex is missing'])
})

test('stopping ends the worker, then Core', async () => {
  await using context = await setup()
  const stack = await context.start()
  await stack.stop()
  expect([stack.core, stack.worker].map((part) => isAlive(part?.pid ?? 0))).toEqual([false, false])
  const stoppedAt = async (file: string) => BigInt(/stops at (\d+)/.exec(await readFile(file, 'utf8'))?.[1] ?? -1)
  const [worker, core] = [await stoppedAt(stack.logFiles.worker), await stoppedAt(stack.logFiles.core)]
  expect(worker).toBeGreaterThan(0n)
  expect(core).toBeGreaterThan(worker)
})

test('the death of a part is told with its name and the end of its log', async () => {
  await using context = await setup()
  await using stack = await context.start()
  await fetch(`${stack.url}/die`).catch(() => {})
  expect(await stack.broken).toMatch(/^Core ended with exit code 7\..*core is listening/s)
})

test('a killed worker can be replaced', async () => {
  await using context = await setup()
  await using stack = await context.start()
  process.kill(stack.worker?.pid ?? 0, 'SIGKILL')
  expect(await stack.broken).toContain('The worker was ended by SIGKILL')
  const next = await stack.startWorker()
  expect(isAlive(next.pid)).toBe(true)
})

test('what Core says about a fatal configuration is what the launcher says', async () => {
  await using context = await setup()
  expect(await refusal(context.start({ env: { WISH: 'refuse' } }))).toBe(
    'LaunchError: Core did not start: platen.toml, line 3: enabled must be true or false.',
  )
})

test('a start can be given up while Core is not ready', async () => {
  await using context = await setup()
  const stop = new AbortController()
  const starting = context.start({ env: { WISH: 'never ready' }, signal: stop.signal })
  stop.abort(new Error('enough'))
  await expect(starting).rejects.toThrow('enough')
  await (await context.start()).stop()
})

test('a second start on the same state is refused while the first runs, not after', async () => {
  await using context = await setup()
  const first = await context.start()
  expect(await refusal(context.start())).toContain(`LaunchError: Platen is already running on ${context.directory}`)
  await first.stop()
  await (await context.start()).stop()
})

test('a lock that a crashed start left does not matter, even if its process id is in use again', async () => {
  await using context = await setup()
  await writeFile(join(context.directory, 'lock'), JSON.stringify({ pid: process.ppid, command: 'another program' }))
  await (await context.start()).stop()
})

test('a part that outlived a killed launcher is ended by the next start', async () => {
  await using context = await setup()
  const left = spawn(
    process.execPath,
    ['-e', 'process.on("SIGTERM", () => {}); console.log("up"); setInterval(() => {}, 1e6)'],
    {
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  )
  await once(left.stdout, 'data')
  const ended = once(left, 'exit')
  await (await context.start()).stop()
  rememberPart(context.directory, left.pid ?? 0)
  await (await context.start()).stop()
  expect(await ended).toEqual([null, 'SIGKILL'])
})

test('a noted part whose process id another program has got is left alone', async () => {
  await using context = await setup()
  await writeFile(join(context.directory, 'parts'), `${process.ppid} node server/src/main.ts\n`)
  await (await context.start()).stop()
  expect(isAlive(process.ppid)).toBe(true)
})

test('a taken port is named', async () => {
  await using context = await setup()
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  try {
    expect(await refusal(context.start({ port }))).toContain(`LaunchError: Port ${port} of 127.0.0.1 is taken`)
  } finally {
    other.close()
  }
})

test('a database that does not answer is named without its password', async () => {
  await using context = await setup()
  const message = await refusal(context.start({ databaseUrl: 'postgresql://me:hush@127.0.0.1:1/none' }))
  expect(message).toMatch(/^LaunchError: The database of DATABASE_URL \(127\.0\.0\.1:1\) does not answer/)
  expect(message).not.toContain('hush')
})

test('a state directory that cannot be one is named', async () => {
  await using context = await setup()
  const file = join(context.directory, 'file')
  await writeFile(file, '')
  expect(await refusal(context.start({ directory: file }))).toBe(
    `LaunchError: ${file} is not a directory. Move it away.`,
  )
})

const fast = { fsync: 'off' }

async function query(url: string, text: string) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

test('embedded PostgreSQL keeps its data from one start to the next', async () => {
  await using directory = await temporaryDirectory()
  const options = { directory: join(directory.path, 'postgres'), settings: fast }
  const first = await startPostgres(options)
  await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer')
  await first.stop()
  const second = await startPostgres(options)
  expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }])
  await second.stop()
})

test('an interrupted creation of the data directory is made good', async () => {
  await using directory = await temporaryDirectory()
  const postgres = join(directory.path, 'postgres')
  await mkdir(join(postgres, 'data.new', 'base'), { recursive: true })
  await writeFile(join(postgres, 'data.new', 'PG_VERSION'), '18\n')
  const server = await startPostgres({ directory: postgres, settings: fast })
  expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }])
  await server.stop()
})

test('a damaged data directory is refused with what to do, and left alone', async () => {
  await using directory = await temporaryDirectory()
  const data = join(directory.path, 'postgres', 'data')
  await mkdir(data, { recursive: true })
  await writeFile(join(data, 'PG_VERSION'), '18\n')
  expect(await refusal(startPostgres({ directory: join(directory.path, 'postgres') }))).toMatch(
    /^LaunchError: .*data is not a complete PostgreSQL data directory\. .*rm -r/,
  )
  expect(await readFile(join(data, 'PG_VERSION'), 'utf8')).toBe('18\n')
})

test('a server of another PostgreSQL version is refused by number', async () => {
  await using directory = await temporaryDirectory()
  const options = { directory: join(directory.path, 'postgres'), settings: fast }
  await (await startPostgres(options)).stop()
  await writeFile(join(options.directory, 'data', 'PG_VERSION'), '15\n')
  expect(await refusal(startPostgres(options))).toContain('is of PostgreSQL 15, the installed one is 18')
})

test('a database whose launcher was killed ends with it, and the next start works on the same data', async () => {
  await using directory = await temporaryDirectory()
  const options = { directory: join(directory.path, 'postgres'), settings: fast }
  const source = `const { startPostgres } = await import(${JSON.stringify(new URL('../../scripts/postgres.ts', import.meta.url))})
    console.log((await startPostgres(${JSON.stringify(options)})).url)`
  const launcher = spawn(process.execPath, ['--input-type=module', '-e', source], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const [line] = (await once(launcher.stdout, 'data')) as [Buffer]
  await query(line.toString().trim(), 'CREATE TABLE kept AS SELECT 42 AS answer')
  const pid = Number((await readFile(join(options.directory, 'data', 'postmaster.pid'), 'utf8')).split('\n')[0])
  launcher.kill('SIGKILL')
  const next = await startPostgres(options)
  expect(await until(() => !isAlive(pid), 10_000)).toBe(true)
  expect(await query(next.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }])
  await next.stop()
})

if (process.getuid?.() === 0) {
  test("a place that PostgreSQL's account cannot enter is exchanged for another, once, and that is said", async () => {
    await using directory = await temporaryDirectory()
    await chmod(directory.path, 0o700)
    const said: string[] = []
    const options = {
      directory: join(directory.path, 'postgres'),
      settings: fast,
      say: (line: string) => said.push(line),
    }
    const first = await startPostgres(options)
    await first.stop()
    const second = await startPostgres(options)
    await second.stop()
    try {
      expect(first.directory).not.toBe(options.directory)
      expect(second.directory).toBe(first.directory)
      expect(said[0]).toMatch(/^PostgreSQL runs as user nobody, who cannot enter .*; its data is in .*\.$/)
    } finally {
      await rm(first.directory, { recursive: true })
    }
  })
}

test('the unexpected end of the database is reported', async () => {
  await using directory = await temporaryDirectory()
  const reported = Promise.withResolvers<string>()
  const server = await startPostgres({
    directory: join(directory.path, 'postgres'),
    settings: fast,
    onExit: reported.resolve,
  })
  const pid = Number((await readFile(join(server.directory, 'data', 'postmaster.pid'), 'utf8')).split('\n')[0])
  process.kill(pid, 'SIGINT')
  expect(await reported.promise).toMatch(/^PostgreSQL ended\./)
})
