import pg from 'pg'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Database, openDatabase, sql } from '../../server/src/platform/database.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

// What ends the process of Core ends a test run too: an error event that nobody listens to fails these.
describe('a connection that the server ends', () => {
  let place: TestDatabase
  let database: Database
  let admin: pg.Pool
  beforeAll(async () => {
    place = await createDatabase()
    const logger = pino({ level: 'silent' })
    database = await openDatabase({ url: place.url, poolSize: 2, statementTimeoutMs: 10_000, logger })
    admin = new pg.Pool({ connectionString: place.url, max: 1 })
  })
  afterAll(async () => {
    await admin.end()
    await database.close()
    await place[Symbol.asyncDispose]()
  })

  const terminate = async (pid: unknown) => {
    await admin.query('SELECT pg_terminate_backend($1, 5000)', [pid])
  }
  const pidOf = async (client: pg.PoolClient) => (await client.query('SELECT pg_backend_pid() AS pid')).rows[0].pid

  it('while bytes are moved by it, between two statements, fails the next one and nothing else', async () => {
    const client = await database.bytes.connect()
    const lost = new Promise((resolve) => client.once('end', resolve))
    await terminate(await pidOf(client))
    await lost
    await expect(client.query('SELECT 1')).rejects.toThrow()
    client.release(true)
    expect((await database.bytes.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })

  it('while bytes are moved by it, in a statement, fails that one', async () => {
    const client = await database.bytes.connect()
    const pid = await pidOf(client)
    const slow = client.query('SELECT pg_sleep(60)')
    await Promise.all([expect(slow).rejects.toThrow(), terminate(pid)])
    client.release(true)
    expect((await database.bytes.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })

  it('while nobody has it, is replaced', async () => {
    const client = await database.bytes.connect()
    const pid = await pidOf(client)
    client.release()
    await terminate(pid)
    await expect
      .poll(async () => (await database.bytes.query('SELECT 1 AS one').catch(() => ({ rows: [] }))).rows)
      .toEqual([{ one: 1 }])
  })

  it('in a transaction, fails the transaction, and the next one has another connection', async () => {
    const broken = database.transaction('test', async (transaction) => {
      await terminate(await transaction.oneFirst(sql.unsafe`SELECT pg_backend_pid() AS pid`))
      return transaction.oneFirst(sql.unsafe`SELECT 1 AS one`)
    })
    await expect(broken).rejects.toThrow()
    expect(await database.transaction('test', (next) => next.oneFirst(sql.unsafe`SELECT 1 AS one`))).toBe(1)
  })
})
