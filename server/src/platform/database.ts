import pg from 'pg'
import type { Logger } from 'pino'
import {
  type CommonQueryMethods,
  createPool,
  type DatabasePool,
  type DatabaseTransactionConnection,
  type Interceptor,
  type QueryResultRow,
  SchemaValidationError,
  sql,
} from 'slonik'

/** What reads take: a pool, a connection or a transaction. */
export type Reader = Pick<
  CommonQueryMethods,
  'any' | 'anyFirst' | 'many' | 'maybeOne' | 'maybeOneFirst' | 'one' | 'oneFirst' | 'query' | 'exists'
>
/** What changes rows takes. */
export type Transaction = DatabaseTransactionConnection

/**
 * Two pools on one database: slonik for statements, plain pg for what slonik does not do (COPY of bytes).
 * Neither keeps session state, so a transaction-mode pooler may stand between.
 */
export interface Database {
  readonly pool: DatabasePool
  readonly bytes: pg.Pool
  readonly url: string
  close(): Promise<void>
}

/** Slonik parses rows only if told to; every `sql.type(schema)` query goes through its schema here. */
const rowParser: Interceptor = {
  name: 'row-parser',
  transformRow: (context, query, row) => {
    const parser = context.resultParser
    if (!parser) return row
    const result = parser['~standard'].validate(row)
    if (result instanceof Promise) throw new TypeError('row schemas are synchronous')
    if (result.issues) throw new SchemaValidationError(query, row, result.issues)
    return result.value as QueryResultRow
  },
}

const int8 = (value: string): number => {
  const number = Number(value)
  if (!Number.isSafeInteger(number)) throw new RangeError(`integer ${value} does not fit a JavaScript number`)
  return number
}

export interface DatabaseOptions {
  readonly url: string
  readonly poolSize: number
  readonly statementTimeoutMs: number
  readonly logger: Logger
}

export async function openDatabase({ url, poolSize, statementTimeoutMs, logger }: DatabaseOptions): Promise<Database> {
  const pool = await createPool(url, {
    captureStackTrace: false,
    connectionTimeout: 10_000,
    idleInTransactionSessionTimeout: 30_000,
    idleTimeout: 60_000,
    interceptors: [rowParser],
    maxPoolSize: poolSize,
    // No session state is ever set, so the default DISCARD ALL on release would only cost a round trip.
    resetConnection: async () => {},
    statementTimeout: statementTimeoutMs,
    transactionRetryLimit: 5,
    typeParsers: [
      { name: 'int8', parse: int8 },
      { name: 'timestamptz', parse: (value) => new Date(value) },
    ],
  })
  const bytes = new pg.Pool({
    connectionString: url,
    max: Math.max(4, Math.ceil(poolSize / 2)),
    connectionTimeoutMillis: 10_000,
  })
  // An idle connection that the server ends is replaced on the next use; without a listener it would end the process.
  bytes.on('error', (error) => logger.warn({ err: error }, 'an idle database connection was lost'))
  pool.on('error', (error) => logger.warn({ err: error }, 'a database connection was lost'))
  return {
    pool,
    bytes,
    url,
    close: async () => {
      await Promise.allSettled([pool.end(), bytes.end()])
    },
  }
}

export { sql }
