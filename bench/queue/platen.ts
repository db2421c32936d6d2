import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { pino } from 'pino'
import * as attempts from '../../server/src/contexts/processing/store/attempts.ts'
import * as jobs from '../../server/src/contexts/processing/store/jobs.ts'
import * as queue from '../../server/src/contexts/processing/store/queue.ts'
import * as sessions from '../../server/src/contexts/processing/store/sessions.ts'
import { type Database, openDatabase } from '../../server/src/platform/database.ts'
import { newId } from '../../server/src/platform/ids.ts'

// Everything of the bench that knows Platen's queue from inside: what commands/claim.ts, settle-attempt.ts and
// finalize.ts do to a job, by the statements that they do it with.

export const operation = 'latex.compile.pdf/v1'
const leaseSeconds = 60
const contract = 'c'.repeat(64)

// As in commands/claim.ts.
const busyPauseMilliseconds = 5
const busyTries = 3
const busyAgainMilliseconds = 20

export interface Seed {
  readonly count: number
  /** They take turns, job by job. */
  readonly requesters: readonly string[]
  /** Of each job, in turns within a requester; absent: one of its own for each job. */
  readonly projects?: readonly (readonly string[])[]
}

/** As many new ids. */
export const newIds = (count: number): string[] => Array.from({ length: count }, () => randomUUID())

/**
 * Puts jobs in line at once, which comes to the same as entering one by one, only sooner: requesters are new, so that
 * all their lanes are empty before.
 */
export async function seed(client: pg.Client, { count, requesters, projects }: Seed): Promise<void> {
  const perRequester = projects?.[0]?.length ?? 0
  await client.query('BEGIN')
  // Neither history nor checks of moves: nothing moved.
  await client.query('SET LOCAL session_replication_role = replica')
  const { rows } = await client.query('SELECT coalesce(max(seq), 0) AS last FROM processing.job')
  await client.query(
    `INSERT INTO processing.job
       (id, operation, requester_id, project_id, options, state, phase, attempt_limit, prepare_expires_at, queued_at,
        queue_expires_at, input_sha256, input_digest, input_byte_length)
     SELECT gen_random_uuid(), $1, ($2::uuid[])[1 + n % $3], ${
       projects ? '($5::uuid[])[1 + n % $3 * $6 + n / $3 % $6]' : 'gen_random_uuid()'
     }, '{}', 'queued', 'waiting_for_worker', 3, now(), now(), now() + interval '1 day', repeat('a', 64), repeat('a', 64), 1
     FROM generate_series(0, $4::integer - 1) AS n ORDER BY n`,
    [operation, requesters, requesters.length, count, ...(projects ? [projects.flat(), perRequester] : [])],
  )
  await client.query(
    `INSERT INTO processing.queue_entry (job_id, operation, requester_id, project_id, seq, lane_head, expires_at)
     SELECT id, operation, requester_id, project_id, seq,
       row_number() OVER (PARTITION BY operation, requester_id, project_id ORDER BY seq) = 1, queue_expires_at
     FROM processing.job WHERE seq > $1 ORDER BY seq`,
    [rows[0].last],
  )
  await client.query(
    `INSERT INTO processing.turn (operation, requester_id, head_seq, depth)
     SELECT operation, requester_id, min(seq), count(*) FROM processing.queue_entry WHERE seq > $1 GROUP BY 1, 2
     ORDER BY 3`,
    [rows[0].last],
  )
  await client.query('COMMIT')
}

/** Jobs of people who own their projects, so that their results can be published. */
export async function loadPublishable(client: pg.Client, count: number): Promise<void> {
  const requesters = newIds(16)
  const projects = requesters.map(() => newIds(4))
  await client.query(`INSERT INTO access.principal (id, name) SELECT id, 'bench' FROM unnest($1::uuid[]) AS id`, [
    requesters,
  ])
  for (const [index, owned] of projects.entries()) {
    await client.query(
      `INSERT INTO workspace.project (id, name, type) SELECT id, 'Bench', 'LATEX' FROM unnest($1::uuid[]) AS id`,
      [owned],
    )
    await client.query(
      `INSERT INTO access.project_grant (project_id, principal_id, role) SELECT id, $2, 'owner' FROM unnest($1::uuid[]) AS id`,
      [owned, requesters[index]],
    )
  }
  await seed(client, { count, requesters, projects })
  await client.query('VACUUM (ANALYZE)')
}

/** Queues one more job of a requester who may have others in line, as Core does. */
export async function enterOne(client: pg.Client | pg.Pool, requester: string, project: string): Promise<void> {
  await client
    .query(
      `WITH job AS (
       INSERT INTO processing.job
         (id, operation, requester_id, project_id, options, state, phase, attempt_limit, prepare_expires_at, queued_at,
          queue_expires_at, input_sha256, input_digest, input_byte_length)
       VALUES (gen_random_uuid(), $1, $2, $3, '{}', 'queued', 'waiting_for_worker', 3, now(), now(),
         now() + interval '1 day', repeat('a', 64), repeat('a', 64), 1)
       RETURNING id
     )
     SELECT id FROM job`,
      [operation, requester, project],
    )
    .then(({ rows }) => client.query('SELECT processing.enter_queue($1)', [rows[0].id]))
}

export interface Limits {
  readonly activePerRequester: number
  readonly activePerProject: number
}

/** Takes the next job and nothing else; its cost is what is measured. The caller is in a transaction. */
export const takeNextText = `SELECT * FROM processing.take_next($1, $2, $3, $4, $5, $6)`
export const takeNextValues = (sessionId: string, { activePerRequester, activePerProject }: Limits): unknown[] => [
  operation,
  sessionId,
  randomUUID(),
  64,
  activePerRequester,
  activePerProject,
]
export const freeSlotsText = 'DELETE FROM processing.claim_slot WHERE session_id = $1'

/** Jobs in line, and what else of the line is left over. */
export async function countLine(client: pg.Client) {
  const { rows } = await client.query(`
    SELECT
      (SELECT count(*) FROM processing.queue_entry)::int AS waiting,
      (SELECT coalesce(sum(depth), 0) FROM processing.turn)::int AS turns,
      (SELECT count(*) FROM processing.claim_slot)::int AS slots,
      (SELECT count(*) FROM processing.attempt WHERE ended_at IS NULL)::int AS open,
      (SELECT count(*) FROM processing.job WHERE state = 'queued')::int AS queued,
      (SELECT count(*) FROM processing.job WHERE state = 'succeeded')::int AS succeeded,
      (SELECT count(*) FROM (SELECT FROM processing.attempt GROUP BY job_id HAVING count(*) > 1) AS again)::int AS repeated`)
  return rows[0] as Record<'waiting' | 'turns' | 'slots' | 'open' | 'queued' | 'succeeded' | 'repeated', number>
}

export interface Claimed {
  readonly jobId: string
  readonly claimId: string
  readonly sessionId: string
  readonly requesterId: string
  readonly projectId: string
}

/** Claims and finishes jobs without HTTP: a transaction for a claim and one for its end, as Core has them. */
export class Engine {
  readonly #database: Database
  readonly #limits: Limits
  /** Who passed over something that another was holding; the next that ends may have been it. */
  readonly #hopeful = new Set<() => void>()

  private constructor(database: Database, limits: Limits) {
    this.#database = database
    this.#limits = limits
  }

  static async open(url: string, connections: number, limits: Limits): Promise<Engine> {
    const database = await openDatabase({
      url,
      poolSize: connections,
      statementTimeoutMs: 30_000,
      logger: pino({ level: 'silent' }),
    })
    return new Engine(database, limits)
  }

  /** A worker with as many slots. @returns its session's id */
  async openSession(slots: number): Promise<string> {
    const id = newId()
    await this.#database.transaction('open', async (transaction) => {
      await sessions.insert(transaction, { id, workerName: 'bench', instanceId: newId(), executor: 'subprocess' })
      const processor = { operation, name: 'bench', version: '1', contract, slots, facts: {} } as const
      await sessions.insertProcessor(transaction, id, processor as never)
    })
    return id
  }

  /**
   * Up to `most` jobs, in one transaction; none if there is nothing, or others held all that there is.
   *
   * @param onTaken is told how long the claim statement took that found a job
   */
  async claim(sessionId: string, most: number, onTaken?: (ms: number) => void): Promise<readonly Claimed[]> {
    const { claims, busy } = await this.#database.transaction('acquire', async (transaction) => {
      const claims: Claimed[] = []
      let busy = false
      for (let tries = busyTries; claims.length < most && tries > 0; ) {
        const claimIds = Array.from({ length: most - claims.length }, newId)
        const began = performance.now()
        const taken = await queue.claim(transaction, {
          operation,
          sessionId,
          claimIds,
          leaseSeconds,
          ...this.#limits,
        })
        if (taken.jobs.length > 0) onTaken?.(performance.now() - began)
        for (const [index, { id: jobId, requesterId, projectId }] of taken.jobs.entries()) {
          const claimId = claimIds[index] as string
          claims.push({ jobId, claimId, sessionId, requesterId, projectId: projectId as string })
        }
        busy = taken.found === 'busy'
        if (!busy || taken.jobs.length === claimIds.length) break
        tries -= 1
        await sleep(busyPauseMilliseconds * (0.5 + Math.random()))
      }
      return { claims, busy }
    })
    if (claims.length === 0) await this.#pause(busy ? busyAgainMilliseconds * (0.5 + Math.random()) : 250)
    return claims
  }

  /** Ends a claim and its job, held and compared as a delivery is. */
  async finish({ claimId, sessionId }: Claimed): Promise<void> {
    await this.#database.transaction('complete', async (transaction) => {
      const held = await attempts.hold(transaction, claimId, sessionId, leaseSeconds)
      if (!held) throw new Error('a claim was lost')
      await attempts.end(transaction, claimId, 'delivered')
      const delivered = await jobs.move(transaction, held.job, 'delivered', {
        phase: 'publishing_result',
        processorContract: contract,
        finalization: { token: newId(), seconds: leaseSeconds },
      })
      await jobs.move(transaction, delivered, 'published')
    })
    this.wake()
  }

  /** Lets the longest waiting look again: something may have become claimable. */
  wake(): void {
    const [first] = this.#hopeful
    first?.()
  }

  close(): Promise<void> {
    return this.#database.close()
  }

  async #pause(milliseconds: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const go = () => {
        clearTimeout(timer)
        this.#hopeful.delete(go)
        resolve()
      }
      const timer = setTimeout(go, milliseconds)
      this.#hopeful.add(go)
    })
  }
}
