import { once } from 'node:events'
import { createServer } from 'node:net'
import pg from 'pg'
import { errorCode, LaunchError } from './launch-error.ts'

/** @throws {LaunchError} if nobody can listen there now */
export async function assertPortFree(port: number, host: string): Promise<void> {
  const probe = createServer().listen(port, host)
  try {
    await once(probe, 'listening')
  } catch (cause) {
    const code = errorCode(cause)
    if (code === 'EADDRINUSE') {
      throw new LaunchError(
        `Port ${port} of ${host} is taken by another program. Stop it, or choose another port: PORT=${port === 65535 ? 4000 : port + 1} npm start`,
        { cause },
      )
    }
    if (code === 'EACCES') {
      throw new LaunchError(`This user may not listen on port ${port}. Choose one above 1023: PORT=4000 npm start`, {
        cause,
      })
    }
    throw new LaunchError(`Platen cannot listen on ${host}, port ${port} (${code}). Check HOST and PORT.`, { cause })
  }
  probe.close()
  await once(probe, 'close')
}

/** @throws {LaunchError} if no PostgreSQL that is new enough answers; the message holds no password */
export async function assertDatabaseAnswers(databaseUrl: string): Promise<void> {
  if (!/^postgres(ql)?:\/\//.test(databaseUrl)) {
    throw new LaunchError('DATABASE_URL must look like postgresql://user:password@host:5432/database.')
  }
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 10_000 })
  try {
    await client.connect()
    const { rows } = await client.query<{ version: number }>(
      `SELECT current_setting('server_version_num')::int AS version`,
    )
    const version = Math.floor((rows[0]?.version ?? 0) / 10_000)
    if (version < 15) throw new LaunchError(`DATABASE_URL names a PostgreSQL ${version}; Platen needs 15 or newer.`)
  } catch (cause) {
    if (cause instanceof LaunchError) throw cause
    const reason = (cause as Error).message || errorCode(cause)
    throw new LaunchError(
      `The database of DATABASE_URL (${client.host}:${client.port}) does not answer: ${reason}. Start it or correct DATABASE_URL; without DATABASE_URL Platen starts its own.`,
      { cause },
    )
  } finally {
    await client.end().catch(() => {})
  }
}
