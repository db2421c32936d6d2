import pg from 'pg'
import { expect, test } from 'vitest'
import { createDatabase } from '../support/database.ts'

const withClient = async <T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

test('a test database is migrated', async () => {
  await using database = await createDatabase()
  const applied = await withClient(database.url, (client) => client.query('SELECT name FROM public.platen_migration'))
  expect(applied.rowCount).toBeGreaterThan(0)
})

test('test databases do not see each other, also when made at once', async () => {
  const [one, other] = await Promise.all([createDatabase(), createDatabase()])
  await using _one = one
  await using _other = other
  await withClient(one.url, (client) => client.query('CREATE TABLE public.mine (id int)'))
  const seen = await withClient(other.url, (client) => client.query(`SELECT to_regclass('public.mine') AS mine`))
  expect(seen.rows).toEqual([{ mine: null }])
})

test('a disposed test database is gone', async () => {
  const database = await createDatabase()
  await database[Symbol.asyncDispose]()
  await expect(withClient(database.url, (client) => client.query('SELECT 1'))).rejects.toMatchObject({ code: '3D000' })
})
