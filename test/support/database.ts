import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import { inject } from 'vitest'
import { databaseUrl } from './database-url.ts'

export interface TestDatabase extends AsyncDisposable {
  /** Migrated and empty; nobody else works on it. */
  readonly url: string
}

async function administer(statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: inject('databaseServer').url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

const patienceMs = 3_000
const inUse = '55006'

/** Connections that were told to end may still be on their way out; what stays longer is cut off. */
async function drop(name: string): Promise<void> {
  const end = performance.now() + patienceMs
  while (performance.now() < end) {
    try {
      return await administer(`DROP DATABASE IF EXISTS ${name}`)
    } catch (error) {
      if ((error as { code?: string }).code !== inUse) throw error
      await setTimeout(20)
    }
  }
  await administer(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
}

/**
 * A migrated database of its own for a test or a file; dropped with whatever is still connected to it when disposed.
 * Works in the projects integration, conformance and e2e.
 */
export async function createDatabase(): Promise<TestDatabase> {
  const { url, template } = inject('databaseServer')
  const name = `platen_test_${randomBytes(8).toString('hex')}`
  await administer(`CREATE DATABASE ${name} TEMPLATE ${template}`)
  return {
    url: databaseUrl(url, name),
    [Symbol.asyncDispose]: () => drop(name),
  }
}
