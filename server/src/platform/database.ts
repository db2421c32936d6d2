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
import { type Failpoints, noFailpoints } from './failpoints.ts'
import { sha256Hex } from './ids.ts'

/** What reads take: a pool, a connection or a transaction. */
export type Reader = Pick<
  CommonQueryMethods,
  'any' | 'anyFirst' | 'many' | 'maybeOne' | 'maybeOneFirst' | 'one' | 'oneFirst' | 'query' | 'exists'
>
/** What changes rows takes. */
export type Transaction = DatabaseTransactionConnection

/**
 * Two pools on one database: slonik for statements, plain pg for what slonik does not do (COPY of bytes).
 * The only state of a connection is its named statements: a transaction-mode pooler that stands between has to keep them
 * (PgBouncer from 1.21 on, with `max_prepared_statements`).
 */
export interface Database {
  readonly pool: DatabasePool
  readonly bytes: pg.Pool
  readonly url: string
  readonly failpoints: Failpoints
  /**
   * Runs and commits a transaction. It is repeated when the server gave it up for a conflict (SQLSTATE class 40), so `run`
   * may have no other effect than its statements.
   *
   * @throws {Error} for a lost connection; whether it committed is then not known
   * @param name of the step, as its failpoints are called
   */
  transaction<T>(name: string, run: (transaction: Transaction) => Promise<T>): Promise<T>
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

/** Texts that are built from lists differ in each call and must not fill the server's memory. */
const mostNamedStatements = 300
const callsBeforeName = 3

/** Has the server keep the parse of a statement that is run often, which costs as much as running it. */
function namedStatements(): Interceptor {
  const calls = new Map<string, number>()
  const names = new Map<string, string>()
  return {
    name: 'named-statements',
    transformQuery: (_context, query) => {
      const known = names.get(query.sql)
      if (known !== undefined) return { ...query, name: known }
      if (names.size >= mostNamedStatements) return query
      const count = (calls.get(query.sql) ?? 0) + 1
      if (count < callsBeforeName) {
        if (calls.size > 10 * mostNamedStatements) calls.clear()
        calls.set(query.sql, count)
        return query
      }
      calls.delete(query.sql)
      const name = `platen_${sha256Hex(query.sql).slice(0, 24)}`
      names.set(query.sql, name)
      return { ...query, name }
    },
  }
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
  /** @default none */
  readonly failpoints?: Failpoints
  /** Sees every statement; for tests that decide in which order two transactions take their steps. */
  readonly interceptors?: readonly Interceptor[]
}

export async function openDatabase({
  url,
  poolSize,
  statementTimeoutMs,
  logger,
  failpoints = noFailpoints,
  interceptors = [],
}: DatabaseOptions): Promise<Database> {
  const pool = await createPool(url, {
    captureStackTrace: false,
    connectionTimeout: 10_000,
    idleInTransactionSessionTimeout: 30_000,
    idleTimeout: 60_000,
    interceptors: [...interceptors, rowParser, namedStatements()],
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
  // A connection that the server ends says so as an event too, whoever has it: without a listener it would end the
  // process. The pool listens only to those that are idle, and replaces them; whoever has one is told by its statement.
  bytes.on('connect', (client) => client.on('error', () => {}))
  bytes.on('error', (error) => logger.warn({ err: error }, 'an idle database connection was lost'))
  pool.on('error', (error) => logger.warn({ err: error }, 'a database connection was lost'))
  return {
    pool,
    bytes,
    url,
    failpoints,
    transaction: async (name, run) => {
      const result = await pool.transaction(async (transaction) => {
        const done = await run(transaction)
        await failpoints.hit(`${name}.before-commit`)
        return done
      })
      await failpoints.hit(`${name}.after-commit`)
      return result
    },
    close: async () => {
      await Promise.allSettled([pool.end(), bytes.end()])
    },
  }
}

/** Nothing listens at its address, or what listens is only starting: not a fault of the way to it, and the same for everyone. */
const downCodes = ['ECONNREFUSED', '57P03']

/** Whether the database itself is down, as far as an error can tell. */
export const isDatabaseDown = (error: unknown): boolean =>
  error instanceof Error &&
  (downCodes.includes(String((error as { code?: unknown }).code)) ||
    isDatabaseDown(error.cause) ||
    (error instanceof AggregateError && error.errors.some(isDatabaseDown)))

export { sql }
