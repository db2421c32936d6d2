import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { z } from 'zod'
import { Access } from '../../../server/src/contexts/access/index.ts'
import { Collaboration } from '../../../server/src/contexts/collaboration/index.ts'
import { type Deployment, parseDeployment } from '../../../server/src/contexts/distribution/index.ts'
import type { Engine } from '../../../server/src/contexts/processing/commands/context.ts'
import { ProcessingMetrics } from '../../../server/src/contexts/processing/commands/metrics.ts'
import { Reapers } from '../../../server/src/contexts/processing/commands/reap.ts'
import type { WorkerCall } from '../../../server/src/contexts/processing/commands/replay.ts'
import { SessionBook } from '../../../server/src/contexts/processing/commands/session-book.ts'
import { Attempts } from '../../../server/src/contexts/processing/commands/settle-attempt.ts'
import { Waiters } from '../../../server/src/contexts/processing/commands/waiters.ts'
import { WorkerSessions } from '../../../server/src/contexts/processing/commands/worker-sessions.ts'
import * as sessionStore from '../../../server/src/contexts/processing/store/sessions.ts'
import { createWorkspace } from '../../../server/src/contexts/workspace/index.ts'
import { PostgresBlobStore } from '../../../server/src/platform/blobs/postgres-blob-store.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { Tickets } from '../../../server/src/platform/tickets.ts'
import { createDatabase } from '../database.ts'
import { smallPdf } from '../platen/worker-client.ts'
import { Interleaver } from './interleaver.ts'

export const operation = 'latex.compile.pdf/v1'

export interface Bench extends AsyncDisposable {
  readonly interleaver: Interleaver
  readonly engine: Engine
  readonly attempts: Attempts
  readonly sessions: WorkerSessions
  readonly reapers: Reapers
  readonly owner: string
  readonly projectId: string
  /** The same engine with other limits, as another replica may have them for a while. */
  withLimits(limits: Partial<Deployment['limits']>): Engine
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it asked for
  query(statement: string, values?: readonly unknown[]): Promise<any[]>
  /** A job in line, of the owner and the project unless told otherwise. */
  queued(more?: { requester?: string; project?: string }): Promise<string>
  /** An open session with that many slots. */
  session(slots?: number): Promise<{ session: sessionStore.Session; instanceId: string }>
  /** A claim on a new job, with its PDF staged. */
  claimed(): Promise<{ jobId: string; claimId: string; session: sessionStore.Session; instanceId: string }>
  call(session: sessionStore.Session, route: string, body?: unknown, key?: string): WorkerCall
  /** Ends everything, so that the next run begins with an empty line. */
  clear(): Promise<void>
}

/** The commands of Processing on a database, without the edges around them and without anything that works by itself. */
export async function openBench(): Promise<Bench> {
  await using cleanup = new AsyncDisposableStack()
  const testDatabase = cleanup.use(await createDatabase())
  const direct = new pg.Pool({ connectionString: testDatabase.url, max: 4 })
  cleanup.defer(() => direct.end())
  const monitor = new pg.Client({ connectionString: testDatabase.url })
  await monitor.connect()
  cleanup.defer(() => monitor.end())
  const query = async (statement: string, values: readonly unknown[] = []) =>
    (await direct.query(statement, [...values])).rows

  const interleaver = new Interleaver(monitor)
  const log = pino({ level: 'silent' })
  const deployment = parseDeployment(
    `[operations."${operation}"]
     [workers.local]
     token_sha256 = "${'0'.repeat(64)}"
     operations = ["${operation}"]
     [limits]
     lease_seconds = 600
     active_per_requester = 50
     active_per_project = 50`,
    'bench.toml',
  )
  const database = await openDatabase({
    url: testDatabase.url,
    poolSize: 6,
    statementTimeoutMs: 30_000,
    logger: log,
    interceptors: [interleaver.interceptor],
    failpoints: interleaver.failpoints,
  })
  cleanup.defer(() => database.close())
  const secret = 's'.repeat(32)
  const blobs = new PostgresBlobStore(database, deployment.limits)
  const access = new Access(database)
  const collaboration = new Collaboration(database)
  const { limits } = deployment
  const uploadTickets = new Tickets(secret, 'upload', z.strictObject({ upload: z.uuid() }))
  const workspace = createWorkspace({ database, access, collaboration, blobs, limits, uploadTickets })
  const signals = { announce: () => {}, subscribe: () => () => {} }
  const engine: Engine = {
    database,
    access,
    workspace,
    blobs,
    deployment,
    signals,
    transferTickets: new Tickets(secret, 'transfer', z.any()),
    downloadTickets: new Tickets(secret, 'download', z.any()),
    sessionKey: Buffer.from(secret),
    // What the bytes are is tested elsewhere; here it is when they are published.
    validator: { problemOf: async () => null },
    metrics: new ProcessingMetrics(new Registry(), database.pool),
    log,
    random: () => 0.5,
    book: new SessionBook(database, signals),
    waiters: new Waiters(),
  }
  const attempts = new Attempts(engine, () => {})
  const { principal } = await access.createPrincipal('owner', 'test')
  const settings = { engine: null, entryPath: null, sourceEpoch: null }
  const { project } = await workspace.projects.create(principal.id, {
    name: 'project',
    type: 'LATEX',
    settings,
    idempotencyKey: randomUUID(),
  })
  await workspace.files.writeDocument(principal.id, project.id, 'main.tex', '\\documentclass{article}')
  async function* pdf() {
    yield smallPdf
  }
  const { sha256 } = await blobs.write(pdf(), { maxBytes: 10_000 })

  const queued: Bench['queued'] = async ({ requester = principal.id, project: of = project.id } = {}) => {
    const [{ id }] = await query(
      `INSERT INTO processing.job
         (id, operation, requester_id, project_id, options, state, phase, attempt_limit, prepare_expires_at,
          queue_expires_at, input_sha256, input_digest, input_byte_length)
       VALUES (gen_random_uuid(), $1, $2, $3, '{}', 'queued', 'waiting_for_worker', 3, now(),
          now() + interval '1 day', repeat('a', 64), repeat('a', 64), 1)
       RETURNING id`,
      [operation, requester, of],
    )
    await query('SELECT processing.enter_queue($1)', [id])
    return id
  }
  const session: Bench['session'] = async (slots = 4) => {
    const instanceId = randomUUID()
    const id = randomUUID()
    await query(
      `INSERT INTO processing.session (id, worker_name, instance_id, executor) VALUES ($1, 'local', $2, 'bubblewrap')`,
      [id, instanceId],
    )
    await query(
      `INSERT INTO processing.session_processor (session_id, operation, name, version, contract, slots, facts)
       VALUES ($1, $2, 'test', '1', repeat('c', 64), $3, '{}')`,
      [id, operation, slots],
    )
    const [found] = await sessionStore.findOpen(database.pool, [id])
    return { session: found as sessionStore.Session, instanceId }
  }
  const claimed: Bench['claimed'] = async () => {
    const jobId = await queued()
    const { session: holder, instanceId } = await session()
    const claimId = randomUUID()
    await query(`SELECT processing.take_next($1, $2, $3, 4, 50, 50)`, [operation, holder.id, claimId])
    await query(
      `UPDATE processing.job SET state = 'running', phase = 'processing', attempt_count = 1, version = version + 1 WHERE id = $1`,
      [jobId],
    )
    await query(
      `INSERT INTO processing.attempt
         (claim_id, job_id, number, operation, requester_id, project_id, session_id, contract, lease_expires_at)
       VALUES ($1, $2, 1, $3, $4, $5, $6, repeat('c', 64), now() + interval '10 minutes')`,
      [claimId, jobId, operation, principal.id, project.id, holder.id],
    )
    await query(
      `INSERT INTO processing.staging (claim_id, role, media_type, byte_length, sha256, stored_at)
       VALUES ($1, 'pdf', 'application/pdf', $2, $3, now())`,
      [claimId, smallPdf.length, sha256],
    )
    await query('INSERT INTO blob.reference (holder, sha256) VALUES ($1, $2)', [`staging:${claimId}`, sha256])
    return { jobId, claimId, session: holder, instanceId }
  }

  const owned = cleanup.move()
  return {
    interleaver,
    engine,
    attempts,
    sessions: new WorkerSessions(engine),
    reapers: new Reapers(engine, attempts),
    owner: principal.id,
    projectId: project.id,
    withLimits: (changed) => ({ ...engine, deployment: { ...deployment, limits: { ...limits, ...changed } } }),
    query,
    queued,
    session,
    claimed,
    call: ({ id }, route, body = {}, key = randomUUID()) => ({ scope: id, route, key, body }),
    clear: async () => {
      await query(`
        TRUNCATE processing.job, processing.session, processing.attempt, processing.queue_entry, processing.turn,
          processing.claim_slot, processing.worker_request, processing.command_key CASCADE`)
      await query(`DELETE FROM blob.reference WHERE holder ~ '^(staging|artifact|job-input):'`)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
