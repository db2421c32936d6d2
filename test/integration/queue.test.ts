import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createDatabase, type TestDatabase } from '../support/database.ts'

const operation = 'latex.compile.pdf/v1'
const ceiling = 4
const requesterLimit = 3
const projectLimit = 2

interface Taken {
  readonly jobId: string
  readonly claimId: string
}

/** The line itself, by its own functions: who is next, and what it costs to find out. */
describe('the queue', () => {
  let database: TestDatabase
  let pool: pg.Pool
  beforeEach(async () => {
    database = await createDatabase()
    pool = new pg.Pool({ connectionString: database.url, max: 12 })
  })
  afterEach(async () => {
    await pool.end()
    await database[Symbol.asyncDispose]()
  })
  const rows = async (query: string, values: unknown[] = []) => (await pool.query(query, values)).rows

  /** Queued jobs of one requester, in this order. */
  async function enqueue(
    count: number,
    { requester = randomUUID(), project = (_index: number) => randomUUID() as string } = {},
  ) {
    const projects = Array.from({ length: count }, (_, index) => project(index))
    const ids = (
      await rows(
        `INSERT INTO processing.job
           (id, operation, requester_id, project_id, options, state, phase, attempt_limit, prepare_expires_at, queue_expires_at,
            input_sha256, input_digest, input_byte_length)
         SELECT gen_random_uuid(), $1, $2, project, '{}', 'queued', 'waiting_for_worker', 3, now(), now() + interval '1 day',
           repeat('a', 64), repeat('a', 64), 1
         FROM unnest($3::uuid[]) WITH ORDINALITY AS p (project, n) ORDER BY n
         RETURNING id`,
        [operation, requester, projects],
      )
    ).map((row) => row.id as string)
    if (count < 1000) await rows('SELECT processing.enter_queue(id) FROM unnest($1::uuid[]) AS id', [ids])
    else await fill(ids, requester)
    return { ids, requester, projects }
  }

  /** Puts jobs of a requester who has nothing in line into it at once: what entering one by one comes to, only sooner. */
  async function fill(ids: readonly string[], requester: string) {
    await rows(
      `INSERT INTO processing.queue_entry (job_id, operation, requester_id, project_id, seq, lane_head, expires_at)
       SELECT id, operation, requester_id, project_id, seq, row_number() OVER (PARTITION BY operation, project_id ORDER BY seq) = 1,
         queue_expires_at
       FROM processing.job WHERE id = ANY ($1)`,
      [ids],
    )
    await rows(
      `INSERT INTO processing.turn (operation, requester_id, head_seq, depth)
       SELECT operation, requester_id, min(seq), count(*) FROM processing.queue_entry WHERE requester_id = $1 GROUP BY 1, 2`,
      [requester],
    )
    await expectSound()
  }

  const take = async (client: pg.Pool | pg.PoolClient = pool, session = randomUUID()): Promise<Taken | null> => {
    const claimId = randomUUID()
    const { rows: found } = await client.query('SELECT job_id FROM processing.take_next($1, $2, $3, $4, $5, $6)', [
      operation,
      session,
      claimId,
      ceiling,
      requesterLimit,
      projectLimit,
    ])
    return found[0].job_id === null ? null : { jobId: found[0].job_id, claimId }
  }
  const finish = ({ claimId }: Taken) => rows('DELETE FROM processing.claim_slot WHERE claim_id = $1', [claimId])

  /** What must be true of the small tables after any commit. */
  async function expectSound() {
    const wrongTurns = await rows(`
      SELECT t.requester_id FROM processing.turn t
      FULL JOIN (
        SELECT operation, requester_id, min(seq) AS head_seq, count(*) AS depth FROM processing.queue_entry GROUP BY 1, 2
      ) q USING (operation, requester_id)
      WHERE t.head_seq IS DISTINCT FROM q.head_seq OR t.depth IS DISTINCT FROM q.depth`)
    expect(wrongTurns).toEqual([])
    const wrongHeads = await rows(`
      SELECT q.requester_id, q.project_id FROM processing.queue_entry q GROUP BY q.operation, q.requester_id, q.project_id
      HAVING min(seq) IS DISTINCT FROM min(seq) FILTER (WHERE lane_head) OR count(*) FILTER (WHERE lane_head) <> 1`)
    expect(wrongHeads).toEqual([])
  }

  it('is first in, first out among those with room', async () => {
    const [anna, ben] = [await enqueue(2), await enqueue(2)]
    const order = [await take(), await take(), await take(), await take(), await take()].map((taken) => taken?.jobId)
    expect(order).toEqual([...anna.ids, ...ben.ids, undefined])
    await expectSound()
  })

  it('passes over a requester and a project that are full, and comes back to them', async () => {
    const shared = randomUUID()
    const anna = await enqueue(5, { project: (index) => (index < 3 ? shared : randomUUID()) })
    const ben = await enqueue(1)
    const taken = [await take(), await take(), await take(), await take(), await take()]
    // Two of the shared project, then the requester's third in another project, then Ben.
    expect(taken.map((each) => each?.jobId)).toEqual([anna.ids[0], anna.ids[1], anna.ids[3], ben.ids[0], undefined])
    await finish(taken[0] as Taken)
    expect((await take())?.jobId).toBe(anna.ids[2])
    await expectSound()
  })

  it('gives a session no more than its slots', async () => {
    const session = randomUUID()
    for (let number = 0; number < ceiling + 2; number += 1) await enqueue(1)
    const taken: (Taken | null)[] = []
    for (let number = 0; number < ceiling + 1; number += 1) taken.push(await take(pool, session))
    expect(taken.filter(Boolean)).toHaveLength(ceiling)
    expect(await take()).not.toBeNull()
  })

  it('puts a retry back at its own place', async () => {
    const project = randomUUID()
    const { ids } = await enqueue(3, { project: () => project })
    const first = (await take()) as Taken
    await finish(first)
    await rows('SELECT processing.enter_queue($1)', [first.jobId])
    await expectSound()
    expect((await take())?.jobId).toBe(ids[0])
  })

  it('closes up when someone in the middle, at the head or at the end leaves', async () => {
    const project = randomUUID()
    const { ids } = await enqueue(5, { project: () => project })
    for (const id of [ids[2], ids[0], ids[4]]) {
      await rows('SELECT processing.leave_queue($1)', [id])
      await expectSound()
    }
    expect((await take())?.jobId).toBe(ids[1])
    await rows('SELECT processing.leave_queue($1)', [ids[0]])
    await expectSound()
  })

  it('never passes a limit, loses or doubles a job, whoever takes, adds and finishes at once', async () => {
    const projects = Array.from({ length: 6 }, () => randomUUID() as string)
    const requesters = Array.from({ length: 4 }, () => randomUUID())
    const all: string[] = []
    const most = { requester: 0, project: 0, session: 0 }
    const seen: string[] = []
    const watch = async () => {
      const [now] = await rows(`
        SELECT
          (SELECT coalesce(max(n), 0) FROM (SELECT count(*) n FROM processing.claim_slot GROUP BY requester_id) x)::int AS requester,
          (SELECT coalesce(max(n), 0) FROM (SELECT count(*) n FROM processing.claim_slot GROUP BY project_id) x)::int AS project,
          (SELECT coalesce(max(n), 0) FROM (SELECT count(*) n FROM processing.claim_slot GROUP BY session_id) x)::int AS session`)
      for (const key of ['requester', 'project', 'session'] as const) most[key] = Math.max(most[key], now[key])
    }
    let adding = 2
    const add = async () => {
      for (let batch = 0; batch < 10; batch += 1) {
        const { ids } = await enqueue(10, {
          requester: requesters[batch % requesters.length] as ReturnType<typeof randomUUID>,
          project: (index) => projects[(index + batch) % projects.length] as string,
        })
        all.push(...ids)
      }
      adding -= 1
    }
    const work = async (session: ReturnType<typeof randomUUID>) => {
      for (let idle = 0; idle < 20; ) {
        const held: Taken[] = []
        for (let number = 0; number < 3; number += 1) {
          const taken = await take(pool, session)
          if (taken) held.push(taken)
        }
        await watch()
        seen.push(...held.map((taken) => taken.jobId))
        for (const taken of held) await finish(taken)
        idle = held.length > 0 || adding > 0 ? 0 : idle + 1
      }
    }
    await Promise.all([add(), add(), ...Array.from({ length: 6 }, () => work(randomUUID()))])
    expect([...seen].sort()).toEqual([...all].sort())
    expect(most.requester).toBeLessThanOrEqual(requesterLimit)
    expect(most.project).toBeLessThanOrEqual(projectLimit)
    expect(most.session).toBeLessThanOrEqual(ceiling)
    await expectSound()
    expect(await rows('SELECT 1 FROM processing.queue_entry')).toEqual([])
    expect(await rows('SELECT 1 FROM processing.turn')).toEqual([])
  })

  describe('costs the same', () => {
    /** Shared buffers that one claim touches, with all it writes; rolled back. */
    async function buffersOfOneClaim(): Promise<number> {
      await rows(
        'ANALYZE processing.queue_entry; ANALYZE processing.turn; ANALYZE processing.claim_slot; ANALYZE processing.job',
      )
      const client = await pool.connect()
      try {
        const explain = async () => {
          await client.query('BEGIN')
          const { rows: plan } = await client.query(
            `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM processing.take_next($1, gen_random_uuid(), gen_random_uuid(), ${ceiling}, ${requesterLimit}, ${projectLimit})`,
            [operation],
          )
          await client.query('ROLLBACK')
          const root = plan[0]['QUERY PLAN'][0].Plan
          return root['Shared Hit Blocks'] + root['Shared Read Blocks']
        }
        // The first call of a connection also reads the catalogues.
        await explain()
        return await explain()
      } finally {
        client.release()
      }
    }
    /** Takes what one requester may have, so that the rest of theirs is blocked. */
    const saturate = async (requester: ReturnType<typeof randomUUID>) => {
      for (let number = 0; number < requesterLimit; number += 1) await enqueue(1, { requester })
      for (let number = 0; number < requesterLimit; number += 1) expect(await take()).not.toBeNull()
    }

    it('with a hundred waiting and with twenty thousand, behind whomever they are blocked', {
      timeout: 120_000,
    }, async () => {
      await enqueue(100)
      const few = await buffersOfOneClaim()
      await enqueue(20_000)
      const many = await buffersOfOneClaim()
      expect(many).toBeLessThanOrEqual(few * 1.3)
    })

    it('when twenty thousand of one blocked requester stand at the head, in one project or in as many', {
      timeout: 120_000,
    }, async () => {
      for (const project of [() => '11111111-1111-4111-8111-111111111111', () => randomUUID()] as const) {
        const requester = randomUUID()
        await saturate(requester)
        await enqueue(20_000, { requester, project })
      }
      await enqueue(100)
      const blocked = await buffersOfOneClaim()
      // Two blocked requesters are passed over, whatever the length of their lines.
      expect(blocked).toBeLessThan(250)
    })
  })
})
