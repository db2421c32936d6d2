import { randomBytes } from 'node:crypto'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { startPostgres } from '../../scripts/postgres.ts'
import { migrate } from '../../server/src/platform/migrate.ts'
import { databaseUrl } from './database-url.ts'
import { dockerAnswers } from './docker.ts'

/** What a test file needs in order to make its own database. */
export interface DatabaseServer {
  /** Of a database on which no test works; its role may create databases. */
  readonly url: string
  /** The migrated database that others are copied from. Nobody connects to it. */
  readonly template: string
}

declare module 'vitest' {
  export interface ProvidedContext {
    databaseServer: DatabaseServer
  }
}

interface RunningServer {
  readonly url: string
  stop(): Promise<void>
}

/** Nothing of a test database has to survive anything. */
const withoutDurability = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '300' }

async function startEmbedded(): Promise<RunningServer> {
  const parent = await mkdtemp(join(tmpdir(), 'platen-test-'))
  // Traversable, since PostgreSQL runs as another user when the tests run as root.
  await chmod(parent, 0o711)
  const server = await startPostgres({
    directory: join(parent, 'postgres'),
    settings: withoutDurability,
    say: () => {},
  })
  return {
    url: server.url,
    stop: async () => {
      await server.stop()
      await Promise.all([server.directory, parent].map((path) => rm(path, { recursive: true, force: true })))
    },
  }
}

async function startContainer(): Promise<RunningServer> {
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql')
  const settings = Object.entries(withoutDurability).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const container = await new PostgreSqlContainer('postgres:18-alpine').withCommand(['postgres', ...settings]).start()
  return {
    url: container.getConnectionUri(),
    stop: async () => {
      await container.stop()
    },
  }
}

async function findServer(): Promise<RunningServer> {
  const given = process.env.PLATEN_TEST_DATABASE_URL
  if (given) return { url: given, stop: async () => {} }
  return (await dockerAnswers()) ? startContainer() : startEmbedded()
}

async function administer(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

async function startWithTemplate(): Promise<RunningServer & DatabaseServer> {
  const server = await findServer()
  const template = `platen_template_${randomBytes(6).toString('hex')}`
  try {
    await administer(server.url, `CREATE DATABASE ${template}`)
    await migrate(databaseUrl(server.url, template))
  } catch (error) {
    await server.stop()
    throw error
  }
  const stop = async () => {
    await administer(server.url, `DROP DATABASE ${template} WITH (FORCE)`)
    await server.stop()
  }
  return { url: server.url, template, stop }
}

/** The projects of one run load this module separately, yet share one server. */
const shared = globalThis as { platenTestDatabase?: { server: Promise<RunningServer & DatabaseServer>; users: number } }

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  shared.platenTestDatabase ??= { server: startWithTemplate(), users: 0 }
  const entry = shared.platenTestDatabase
  entry.users += 1
  const server = await entry.server
  project.provide('databaseServer', { url: server.url, template: server.template })
  return async () => {
    entry.users -= 1
    if (entry.users > 0) return
    delete shared.platenTestDatabase
    await server.stop()
  }
}
