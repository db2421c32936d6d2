import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { cancelJob } from '../../../server/src/contexts/processing/commands/cancel-job.ts'
import { acquire } from '../../../server/src/contexts/processing/commands/claim.ts'
import type { Engine } from '../../../server/src/contexts/processing/commands/context.ts'
import { finalize, takeOver } from '../../../server/src/contexts/processing/commands/finalize.ts'
import { prepareInput } from '../../../server/src/contexts/processing/commands/prepare-input.ts'
import { submitBuild } from '../../../server/src/contexts/processing/commands/submit-build.ts'
import { Waiters } from '../../../server/src/contexts/processing/commands/waiters.ts'
import type { Session } from '../../../server/src/contexts/processing/store/sessions.ts'
import { sql } from '../../../server/src/platform/database.ts'
import { type Bench, operation } from './engine.ts'
import type { Outcome } from './interleaver.ts'

/** Two things that may happen at once, and what must be true of it whatever comes first. */
export interface Pair {
  readonly name: string
  /** Makes the situation anew. */
  prepare(bench: Bench): Promise<{
    readonly first: () => Promise<unknown>
    readonly second: () => Promise<unknown>
    readonly check: (outcome: Outcome) => Promise<void>
  }>
}

const never = new AbortController().signal
const deliver = { roles: ['pdf'] as const, diagnostics: [] }

/** One look for work, without a wait. */
const claim = ({ call }: Bench, engine: Engine, session: Session, permits = 1) =>
  acquire(
    // One that knows nothing yet looks in any case.
    { ...engine, waiters: new Waiters() },
    session,
    { processor: operation, permits, expires_in: 0.001 },
    call(session, 'acquire', { permits }),
    never,
  )

const jobOf = async (bench: Bench, id: string) =>
  (await bench.query('SELECT *, cancel_requested_at IS NOT NULL AS cancel FROM processing.job WHERE id = $1', [id]))[0]

type Settled = PromiseSettledResult<unknown>
const claims = (result: Settled): readonly { job_id: string; claim_id: string }[] => {
  if (result.status === 'rejected') throw result.reason
  return (result.value as { claims: { job_id: string; claim_id: string }[] }).claims
}
const succeeded = (result: Settled): boolean => result.status === 'fulfilled'
/** What a refused call was refused for; anything but a refusal is a defect. */
const refusal = (result: Settled): string | null => {
  if (result.status === 'fulfilled') return null
  if (result.reason?.name !== 'WorkerRefusal') throw result.reason
  return result.reason.code
}
const orThrow = (result: Settled): void => {
  if (result.status === 'rejected') throw result.reason
}

/** True of the rows after any pair, whatever it was about. */
export async function expectSound({ query }: Bench): Promise<void> {
  const nobody = '00000000-0000-0000-0000-000000000000'
  const everybody = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
  expect(await query('SELECT * FROM processing.unsound_turns($1, $2, $3)', [operation, nobody, everybody])).toEqual([])
  const wrong = await query(`
    SELECT job.id, job.state FROM processing.job WHERE
      (SELECT count(*) FROM processing.attempt a WHERE a.job_id = job.id AND a.ended_at IS NULL)
        <> CASE WHEN job.state = 'running' THEN 1 ELSE 0 END
      OR EXISTS (SELECT FROM processing.queue_entry q WHERE q.job_id = job.id)
        <> (job.state = 'queued' AND job.claimable_at IS NULL)
      OR EXISTS (SELECT FROM processing.publication p WHERE p.job_id = job.id) <> (job.state = 'succeeded')`)
  expect(wrong).toEqual([])
  const slots = await query(`
    SELECT claim_id FROM processing.claim_slot FULL JOIN (SELECT claim_id FROM processing.attempt WHERE ended_at IS NULL) a
    USING (claim_id) WHERE claim_slot.session_id IS NULL OR a.claim_id IS NULL`)
  expect(slots).toEqual([])
}

const giveUp = (bench: Bench, claimId: string) =>
  bench.query(`UPDATE processing.attempt SET lease_expires_at = '-infinity' WHERE claim_id = $1`, [claimId])

export const pairs: readonly Pair[] = [
  {
    name: 'a claim and a claim of the same job',
    async prepare(bench) {
      const jobId = await bench.queued()
      const [{ session: one }, { session: two }] = [await bench.session(), await bench.session()]
      return {
        first: () => claim(bench, bench.engine, one),
        second: () => claim(bench, bench.engine, two),
        check: async ({ results }) => {
          const all = results.flatMap(claims)
          expect(all.length).toBeLessThanOrEqual(1)
          // Who found it held may have come too early; then it is there for the next look.
          const rest = all.length === 0 ? (await claim(bench, bench.engine, one)).claims : []
          expect([...all, ...rest].map((each) => each.job_id)).toEqual([jobId])
        },
      }
    },
  },
  {
    name: 'a claim and a cancellation',
    async prepare(bench) {
      const jobId = await bench.queued()
      const { session } = await bench.session()
      return {
        first: () => claim(bench, bench.engine, session),
        second: () => cancelJob(bench.engine, bench.owner, jobId),
        check: async ({ results }) => {
          orThrow(results[1])
          const { state, cancel } = await jobOf(bench, jobId)
          if (claims(results[0]).length === 1) expect({ state, cancel }).toEqual({ state: 'running', cancel: true })
          else expect(state).toBe('cancelled')
        },
      }
    },
  },
  {
    name: 'a claim and the end of a wait',
    async prepare(bench) {
      const jobId = await bench.queued()
      const { session } = await bench.session()
      const past = `now() - interval '1 second'`
      await bench.query(`UPDATE processing.job SET queue_expires_at = ${past} WHERE id = $1`, [jobId])
      await bench.query(`UPDATE processing.queue_entry SET expires_at = ${past} WHERE job_id = $1`, [jobId])
      return {
        first: () => claim(bench, bench.engine, session),
        second: () => bench.reapers.reapWaits(),
        check: async ({ results }) => {
          expect(claims(results[0])).toEqual([])
          expect((await jobOf(bench, jobId)).state).toBe('expired')
        },
      }
    },
  },
  {
    name: 'a delivery and a cancellation',
    async prepare(bench) {
      const { claimId, jobId, session } = await bench.claimed()
      const call = bench.call(session, `completeClaim ${claimId}`, deliver)
      return {
        first: () => bench.attempts.complete(session, claimId, { ...deliver, roles: ['pdf'] }, call),
        second: () => cancelJob(bench.engine, bench.owner, jobId),
        check: async ({ results }) => {
          orThrow(results[1])
          const { state, cancel } = await jobOf(bench, jobId)
          if (refusal(results[0]) === null) expect({ state, cancel }).toEqual({ state: 'finalizing', cancel: false })
          else {
            expect(refusal(results[0])).toBe('claim_cancelled')
            expect({ state, cancel }).toEqual({ state: 'running', cancel: true })
          }
        },
      }
    },
  },
  {
    name: 'a delivery and the end of its lease',
    async prepare(bench) {
      const { claimId, jobId, session } = await bench.claimed()
      const call = bench.call(session, `completeClaim ${claimId}`, deliver)
      return {
        first: () => bench.attempts.complete(session, claimId, { ...deliver, roles: ['pdf'] }, call),
        second: async () => {
          await giveUpStepwise(bench, claimId)
          await bench.reapers.reapExpiredLeases()
        },
        check: async ({ results }) => {
          orThrow(results[1])
          const { state } = await jobOf(bench, jobId)
          if (refusal(results[0]) === null) expect(state).toBe('finalizing')
          else expect({ state, code: refusal(results[0]) }).toEqual({ state: 'queued', code: 'claim_lost' })
        },
      }
    },
  },
  {
    name: 'a renewal and the end of its lease',
    async prepare(bench) {
      const { claimId, jobId, session } = await bench.claimed()
      return {
        first: () => bench.attempts.heartbeat(session, claimId),
        second: async () => {
          await giveUpStepwise(bench, claimId)
          await bench.reapers.reapExpiredLeases()
        },
        check: async ({ results, trace }) => {
          orThrow(results[1])
          const { state } = await jobOf(bench, jobId)
          const [renewed] = await bench.query(
            `SELECT ended_at IS NULL AND lease_expires_at > now() AS holds FROM processing.attempt WHERE claim_id = $1`,
            [claimId],
          )
          if (refusal(results[0]) !== null) expect(state).toBe('queued')
          // A renewal that was answered before the lease was given up is over with it.
          else if (state === 'running') expect(renewed.holds).toBe(true)
          else
            expect(trace.findIndex((step) => step.startsWith('0 UPDATE'))).toBeLessThan(
              trace.findIndex((step) => step.startsWith('1 UPDATE')),
            )
        },
      }
    },
  },
  {
    name: 'a renewal that was just in time and the reaper',
    async prepare(bench) {
      const { claimId, jobId } = await bench.claimed()
      await giveUp(bench, claimId)
      return {
        first: () =>
          bench.engine.database.pool.query(sql.unsafe`
            UPDATE processing.attempt SET lease_expires_at = now() + interval '1 hour'
            WHERE claim_id = ${claimId} AND ended_at IS NULL`),
        second: () => bench.reapers.reapExpiredLeases(),
        check: async ({ results }) => {
          results.forEach(orThrow)
          const { rowCount } = (results[0] as PromiseFulfilledResult<{ rowCount: number }>).value
          expect((await jobOf(bench, jobId)).state).toBe(rowCount === 1 ? 'running' : 'queued')
        },
      }
    },
  },
  {
    name: 'a finalizer and the one that takes over',
    async prepare(bench) {
      const { claimId, jobId, session } = await bench.claimed()
      await bench.attempts.complete(
        session,
        claimId,
        { ...deliver, roles: ['pdf'] },
        bench.call(session, 'completeClaim', deliver),
      )
      await bench.query(`UPDATE processing.job SET finalization_expires_at = now() - interval '1 second'`)
      const { finalization_token: token } = await jobOf(bench, jobId)
      return {
        first: () => finalize(bench.engine, jobId, token),
        second: async () => {
          const taken = await takeOver(bench.engine, jobId)
          if (taken !== null) await finalize(bench.engine, jobId, taken)
        },
        check: async ({ results }) => {
          results.forEach(orThrow)
          expect((await jobOf(bench, jobId)).state).toBe('succeeded')
          expect(await bench.query('SELECT 1 FROM processing.artifact WHERE job_id = $1', [jobId])).toHaveLength(1)
          expect(await bench.query(`SELECT 1 FROM blob.reference WHERE holder LIKE 'staging:%'`)).toEqual([])
        },
      }
    },
  },
  {
    name: 'a finalizer at work and one that comes too early',
    async prepare(bench) {
      const { claimId, jobId, session } = await bench.claimed()
      const call = bench.call(session, 'completeClaim', deliver)
      await bench.attempts.complete(session, claimId, { ...deliver, roles: ['pdf'] }, call)
      const { finalization_token: token } = await jobOf(bench, jobId)
      return {
        first: () => finalize(bench.engine, jobId, token),
        second: () => takeOver(bench.engine, jobId),
        check: async ({ results }) => {
          results.forEach(orThrow)
          expect((results[1] as PromiseFulfilledResult<unknown>).value).toBeNull()
          expect((await jobOf(bench, jobId)).state).toBe('succeeded')
        },
      }
    },
  },
  {
    name: 'a job that enters the line and a claim',
    async prepare(bench) {
      const older = await bench.queued()
      const { session } = await bench.session()
      const jobId = await preparing(bench)
      return {
        first: () => prepareInput(bench.engine, jobId),
        second: () => claim(bench, bench.engine, session, 2),
        check: async ({ results }) => {
          orThrow(results[0])
          const taken = [...claims(results[1])]
          if (taken.length < 2) taken.push(...(await claim(bench, bench.engine, session, 2)).claims)
          expect(taken.map((each) => each.job_id)).toEqual([older, jobId])
        },
      }
    },
  },
  {
    name: 'a job that enters the line and its cancellation',
    async prepare(bench) {
      const jobId = await preparing(bench)
      return {
        first: () => prepareInput(bench.engine, jobId),
        second: () => cancelJob(bench.engine, bench.owner, jobId),
        check: async ({ results }) => {
          results.forEach(orThrow)
          expect((await jobOf(bench, jobId)).state).toBe('cancelled')
          expect(await bench.query(`SELECT 1 FROM blob.reference WHERE holder = $1`, [`job-input:${jobId}`])).toEqual(
            [],
          )
        },
      }
    },
  },
  {
    name: 'a release and the end of its session',
    async prepare(bench) {
      const { claimId, jobId, session, instanceId } = await bench.claimed()
      const call = bench.call(session, `releaseClaim ${claimId}`)
      const registration = {
        operation,
        name: 'test',
        version: '1',
        contract: 'c'.repeat(64),
        slots: 1,
        facts: {},
      } as const
      const request = { instance_id: instanceId, executor: 'bubblewrap' as const, processors: [registration] }
      const worker = { name: 'local', tokenSha256: '', operations: [operation] as const }
      return {
        first: () => bench.attempts.release(session, claimId, 'test', call),
        second: async () => {
          await bench.sessions.open(worker, request, bench.call({ ...session, id: instanceId }, 'openSession', request))
          await bench.reapers.reapExpiredLeases()
        },
        check: async ({ results }) => {
          orThrow(results[1])
          expect(['claim_lost', null]).toContain(refusal(results[0]))
          const { state, attempt_count: count } = await jobOf(bench, jobId)
          expect({ state, count }).toEqual({ state: 'queued', count: 1 })
        },
      }
    },
  },
  {
    name: 'a delivery and the same delivery again',
    async prepare(bench) {
      const { claimId, jobId, session } = await bench.claimed()
      const send = () =>
        bench.attempts.complete(
          session,
          claimId,
          { ...deliver, roles: ['pdf'] },
          bench.call(session, `completeClaim ${claimId}`, deliver, 'same-key'),
        )
      return {
        first: send,
        second: send,
        check: async ({ results }) => {
          expect(results.some(succeeded)).toBe(true)
          for (const result of results) expect([null, 'idempotency_key_in_use']).toContain(refusal(result))
          const { state, version } = await jobOf(bench, jobId)
          // Queued, claimed and delivered once.
          expect({ state, version }).toEqual({ state: 'finalizing', version: '3' })
        },
      }
    },
  },
  {
    name: 'two claims while a limit is raised in one replica and not yet in the other',
    async prepare(bench) {
      for (let number = 0; number < 3; number += 1) await bench.queued()
      const [{ session: one }, { session: two }] = [await bench.session(), await bench.session()]
      return {
        first: () => claim(bench, bench.withLimits({ activePerRequester: 1 }), one, 2),
        second: () => claim(bench, bench.withLimits({ activePerRequester: 2 }), two, 2),
        check: async ({ results }) => {
          const taken = results.flatMap(claims).length
          expect(taken).toBeGreaterThan(0)
          expect(taken).toBeLessThanOrEqual(2)
        },
      }
    },
  },
  {
    name: 'two claims where a requester and a project have room for one',
    async prepare(bench) {
      const project = randomUUID()
      await bench.queued({ project })
      await bench.queued({ requester: randomUUID(), project })
      const [{ session: one }, { session: two }] = [await bench.session(), await bench.session()]
      const engine = bench.withLimits({ activePerRequester: 1, activePerProject: 1 })
      return {
        first: () => claim(bench, engine, one, 2),
        second: () => claim(bench, engine, two, 2),
        check: async ({ results }) => {
          expect(results.flatMap(claims).length).toBeLessThanOrEqual(1)
        },
      }
    },
  },
  {
    name: 'a drain and a claim',
    async prepare(bench) {
      await bench.queued()
      const { session } = await bench.session()
      return {
        first: () => bench.sessions.drain(session),
        second: () => claim(bench, bench.engine, session),
        check: async ({ results, trace }) => {
          orThrow(results[0])
          const drained = trace.indexOf('0 drain.before-commit')
          const took = trace.findIndex((step) => step.startsWith('1') && step.includes('claim_jobs'))
          if (claims(results[1]).length > 0) expect(took).toBeLessThan(drained)
        },
      }
    },
  },
]

/** Ends a lease as one step of an actor. */
async function giveUpStepwise(bench: Bench, claimId: string): Promise<void> {
  await bench.engine.database.pool.query(sql.unsafe`
    UPDATE processing.attempt SET lease_expires_at = '-infinity' WHERE claim_id = ${claimId} AND ended_at IS NULL`)
}

/** A job whose input is still to be made. */
async function preparing({ engine, owner, projectId }: Bench): Promise<string> {
  const latex = { engine: null, entry_path: null, on_error: 'fail' } as const
  const { job } = await submitBuild(engine, () => {}, owner, { projectId, idempotencyKey: randomUUID(), latex })
  return job.id
}
