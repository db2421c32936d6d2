import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { migrate } from '../../server/src/platform/migrate.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

const own = fileURLToPath(new URL('../../migrations/', import.meta.url))

describe('migrations', () => {
  let database: TestDatabase
  let directory: string
  let client: pg.Client
  beforeEach(async () => {
    database = await createDatabase()
    directory = await mkdtemp(join(tmpdir(), 'platen-migrations-'))
    await cp(own, directory, { recursive: true })
    client = new pg.Client({ connectionString: database.url })
    await client.connect()
  })
  afterEach(async () => {
    await client.end()
    await rm(directory, { recursive: true })
    await database[Symbol.asyncDispose]()
  })
  const empty = () =>
    client.query(
      'DROP SCHEMA blob, access, workspace, collaboration, processing CASCADE; DROP TABLE public.platen_migration',
    )
  const add = (text: string) => writeFile(join(directory, '9999_new.sql'), text)

  it('do nothing on a database that has them', async () => {
    expect(await migrate(database.url)).toEqual([])
  })

  it('are applied once when several replicas start at the same time', async () => {
    await empty()
    const applied = await Promise.all([1, 2, 3, 4].map(() => migrate(database.url)))
    expect(applied.filter((names) => names.length > 0)).toHaveLength(1)
    expect(applied.flat()).toContain('0001_blob.sql')
  })

  it('that fail leave nothing of themselves, and say so', async () => {
    await add('CREATE TABLE public.half (); SELECT 1 / 0;')
    await expect(migrate(database.url, directory)).rejects.toThrow(
      'Migration 9999_new.sql failed and nothing of it was kept: division by zero',
    )
    expect((await client.query(`SELECT to_regclass('public.half') AS half`)).rows).toEqual([{ half: null }])
    await add('CREATE TABLE public.whole ()')
    expect(await migrate(database.url, directory)).toEqual(['9999_new.sql'])
  })

  it('that were changed after they had been applied are refused', async () => {
    await writeFile(join(directory, '0001_blob.sql'), '-- another\n')
    await expect(migrate(database.url, directory)).rejects.toThrow(
      'Migration 0001_blob.sql was changed after it had been applied',
    )
  })

  it('refuse a database that a newer version has migrated', async () => {
    await add('SELECT 1')
    await migrate(database.url, directory)
    await expect(migrate(database.url)).rejects.toThrow('9999_new.sql, which this version of Platen does not know')
  })
})
