import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { jobStates, moves } from '../../server/src/contexts/processing/domain/lifecycle.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

/** What the database refuses, whoever writes to it. */
describe('the database', () => {
  let database: TestDatabase
  let client: pg.Client
  beforeAll(async () => {
    database = await createDatabase()
    client = new pg.Client({ connectionString: database.url })
    await client.connect()
  })
  afterAll(async () => {
    await client.end()
    await database[Symbol.asyncDispose]()
  })

  const terminal = ['succeeded', 'failed', 'cancelled', 'expired']
  const columns: Record<string, string> = {
    preparing: `phase = 'capturing_input'`,
    queued: `phase = 'waiting_for_worker', queue_expires_at = now()`,
    running: `phase = 'processing', attempt_count = 1`,
    finalizing: `phase = 'validating_result', attempt_count = 1`,
  }
  const setState = (state: string) =>
    `version = version + 1, state = '${state}', ${terminal.includes(state) ? `phase = NULL, finished_at = now()` : columns[state]}, failure = '{}'`
  const input = `input_sha256 = repeat('a', 64), input_digest = repeat('a', 64), input_byte_length = 1`
  /** A job in any state, by a way the triggers let pass. */
  async function job(state = 'queued'): Promise<string> {
    const id = randomUUID()
    await client.query(
      `INSERT INTO processing.job (id, operation, requester_id, options, state, phase, attempt_limit, prepare_expires_at)
       VALUES ($1, 'latex.compile.pdf/v1', $1, '{}', 'preparing', 'capturing_input', 3, now())`,
      [id],
    )
    await client.query(`UPDATE processing.job SET ${input} WHERE id = $1`, [id])
    const way: Record<string, string[]> = {
      preparing: [],
      queued: ['queued'],
      running: ['queued', 'running'],
      finalizing: ['queued', 'running', 'finalizing'],
      succeeded: ['queued', 'running', 'finalizing', 'succeeded'],
      failed: ['failed'],
      cancelled: ['cancelled'],
      expired: ['expired'],
    }
    for (const step of way[state] ?? [])
      await client.query(`UPDATE processing.job SET ${setState(step)} WHERE id = $1`, [id])
    return id
  }
  const attempt = (jobId: string, number: number) =>
    client.query(
      `INSERT INTO processing.attempt (claim_id, job_id, number, operation, requester_id, session_id, contract, lease_expires_at)
       VALUES ($1, $2, $3, 'latex.compile.pdf/v1', $1, $1, repeat('c', 64), now())`,
      [randomUUID(), jobId, number],
    )

  it('lets a job make exactly the moves of the lifecycle table', async () => {
    for (const from of jobStates) {
      const allowed: string[] = Object.values(moves[from])
      for (const to of jobStates) {
        if (from === to) continue
        const id = await job(from)
        const move = client.query(`UPDATE processing.job SET ${setState(to)} WHERE id = $1`, [id])
        if (allowed.includes(to)) await expect(move, `${from} to ${to}`).resolves.toMatchObject({ rowCount: 1 })
        else await expect(move, `${from} to ${to}`).rejects.toMatchObject({ code: '23514' })
      }
    }
  })

  it('never changes a finished job', async () => {
    const id = await job('succeeded')
    await expect(
      client.query(`UPDATE processing.job SET diagnostics = '[]' WHERE id = $1`, [id]),
    ).rejects.toMatchObject({ constraint: 'job_terminal' })
  })

  it('keeps one open attempt a job, and numbers them once', async () => {
    const id = await job('running')
    await attempt(id, 1)
    await expect(attempt(id, 2)).rejects.toMatchObject({ constraint: 'attempt_open' })
    await client.query(`UPDATE processing.attempt SET ended_at = now(), outcome = 'failed' WHERE job_id = $1`, [id])
    await expect(attempt(id, 1)).rejects.toMatchObject({ code: '23505' })
    await expect(attempt(id, 2)).resolves.toMatchObject({ rowCount: 1 })
  })

  it('gives a slot of a session, a requester or a project to one claim', async () => {
    const hold = (session: string, requester: string, project: string) =>
      client.query(
        `INSERT INTO processing.claim_slot
           (claim_id, session_id, operation, requester_id, project_id, session_slot, requester_slot, project_slot)
         VALUES (gen_random_uuid(), $1, 'latex.compile.pdf/v1', $2, $3, 1, 1, 1)`,
        [session, requester, project],
      )
    const [session, requester, project] = [randomUUID(), randomUUID(), randomUUID()]
    await hold(session, requester, project)
    await expect(hold(session, randomUUID(), randomUUID())).rejects.toMatchObject({ code: '23505' })
    await expect(hold(randomUUID(), requester, randomUUID())).rejects.toMatchObject({ code: '23505' })
    await expect(hold(randomUUID(), randomUUID(), project)).rejects.toMatchObject({ code: '23505' })
  })

  it('publishes a job once', async () => {
    const id = await job('finalizing')
    const publish = () =>
      client.query('INSERT INTO processing.publication (job_id, claim_id) VALUES ($1, $2)', [id, randomUUID()])
    await publish()
    await expect(publish()).rejects.toMatchObject({ constraint: 'publication_pkey' })
  })

  const refused: readonly (readonly [what: string, state: string, change: string])[] = [
    ['a state that is none', 'queued', `state = 'paused'`],
    ['a phase that is none', 'running', `phase = 'thinking'`],
    ['a terminal state without its time', 'running', `state = 'failed', phase = NULL, failure = '{}'`],
    ['a failure without its reason', 'running', `state = 'failed', phase = NULL, finished_at = now()`],
    ['a phase of another state', 'queued', `phase = 'processing'`],
    ['more attempts than allowed', 'running', 'attempt_count = 4'],
    [
      'a finalization token outside of finalization',
      'running',
      'finalization_token = gen_random_uuid(), finalization_expires_at = now()',
    ],
    ['a new phase without a new version', 'running', `phase = 'uploading_result'`],
    ['half an input', 'preparing', 'input_digest = NULL'],
  ]
  it.each(refused)('refuses %s', async (_what, state, change) => {
    const id = await job(state)
    await expect(client.query(`UPDATE processing.job SET ${change} WHERE id = $1`, [id])).rejects.toMatchObject({
      code: expect.stringMatching(/^23(514|505)$/),
    })
  })

  it('records each state and phase with its time', async () => {
    const id = await job('succeeded')
    const { rows } = await client.query('SELECT state FROM processing.phase_history WHERE job_id = $1 ORDER BY at', [
      id,
    ])
    expect(rows.map((row) => row.state)).toContain('running')
  })

  it('refuses two names that a case-folding disk could not keep apart', async () => {
    const projectId = randomUUID()
    await client.query(`INSERT INTO workspace.project (id, name, type) VALUES ($1, 'x', 'LATEX')`, [projectId])
    const file = (path: string) =>
      client.query(
        `INSERT INTO workspace.file (id, project_id, path, path_key, kind) VALUES ($1, $2, $3, lower($3), 'document')`,
        [randomUUID(), projectId, path],
      )
    await file('main.tex')
    await expect(file('MAIN.tex')).rejects.toMatchObject({ code: '23505' })
  })
})
