import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { PlatenError } from './errors.ts'

const migrationsDirectory = fileURLToPath(new URL('../../../migrations/', import.meta.url))

/** Any constant will do, as long as all replicas take the same one. */
const migrationLock = 7_528_363_611

class MigrationError extends PlatenError {
  override name = 'MigrationError' as const
  code = 'MIGRATION_FAILED' as const
}

interface Migration {
  readonly name: string
  readonly checksum: string
  readonly text: string
}

async function readMigrations(directory: string): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name)).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(directory, name), 'utf8')
      return { name, text, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

/**
 * Brings the database at `databaseUrl` to the newest schema; safe to run from several replicas at once, since all
 * wait on one advisory lock and then find the work done.
 *
 * @returns the names applied by this call, in order
 * @throws {MigrationError} if an applied file was changed afterwards, or the database is newer than these files
 */
export async function migrate(databaseUrl: string, directory: string = migrationsDirectory): Promise<string[]> {
  const migrations = await readMigrations(directory)
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 10_000 })
  // A lost connection is told by the statement that runs; as an event alone it would end the process.
  client.on('error', () => {})
  await client.connect()
  try {
    // A transaction lock, so that it also holds behind a transaction-mode pooler.
    await client.query('BEGIN')
    await client.query('SELECT pg_advisory_xact_lock($1)', [migrationLock])
    await client.query(`CREATE TABLE IF NOT EXISTS public.platen_migration (
      name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`)
    const { rows } = await client.query<{ name: string; checksum: string }>(
      'SELECT name, checksum FROM public.platen_migration',
    )
    const applied = new Map(rows.map((row) => [row.name, row.checksum]))
    const known = new Set(migrations.map((migration) => migration.name))
    for (const name of applied.keys()) {
      if (!known.has(name)) {
        throw new MigrationError(
          `The database already has migration ${name}, which this version of Platen does not know. Start the newer version, or use another database.`,
        )
      }
    }
    const done: string[] = []
    for (const migration of migrations) {
      const checksum = applied.get(migration.name)
      if (checksum === migration.checksum) continue
      if (checksum !== undefined) {
        throw new MigrationError(
          `Migration ${migration.name} was changed after it had been applied. Restore the file; put the change into a new migration.`,
        )
      }
      try {
        await client.query(migration.text)
      } catch (error) {
        throw new MigrationError(
          `Migration ${migration.name} failed and nothing of it was kept: ${(error as Error).message}`,
          { cause: error },
        )
      }
      await client.query('INSERT INTO public.platen_migration (name, checksum) VALUES ($1, $2)', [
        migration.name,
        migration.checksum,
      ])
      done.push(migration.name)
    }
    await client.query('COMMIT')
    return done
  } finally {
    await client.end()
  }
}
