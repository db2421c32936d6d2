import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import type { App } from '../../../server/src/app.ts'
import { QuotaExceededError } from '../../../server/src/platform/errors.ts'
import { startTestApp, type TestApp } from '../platen/app.ts'
import { smallPdf, type WorkerAnswer, type WorkerClient } from '../platen/worker-client.ts'
import { limits, type Model, type Verdict } from './model.ts'

const article = '\\documentclass{article}\\begin{document}Hello\\end{document}'
const people = 3
const shared = 2

/** A mutating call that was answered with success: it can be sent again. */
interface Call {
  readonly session: number
  readonly path: string
  readonly body: unknown
  readonly key: string
  readonly answer: WorkerAnswer
  /** Which answered it. */
  readonly core: App
}

interface Submitted {
  readonly requester: number
  readonly project: number
  readonly key: string
}

interface Claimed {
  readonly id: string
  readonly inputTicket: string
}

/** Core and PostgreSQL with reapers that stand still until they are told, and time that passes by decree. */
export class Real implements AsyncDisposable {
  readonly platen: TestApp
  #app: App
  #users: string[] = []
  #projects: string[] = []
  jobs: string[] = []
  #keys: Submitted[] = []
  #sessions: WorkerClient[] = []
  #instances: string[] = []
  #claims: Claimed[] = []
  #calls: Call[] = []
  readonly #versions = new Map<string, { version: number; state: string }>()

  private constructor(platen: TestApp) {
    this.platen = platen
    this.#app = platen.app
  }

  static async start(): Promise<Real> {
    const platen = await startTestApp({
      limits: {
        reaper_seconds: 3600,
        sweep_seconds: 3600,
        lease_seconds: limits.lease,
        queue_wait_seconds: limits.queueWait,
        retry_backoff_seconds: limits.backoff,
        attempts: limits.attempts,
        active_per_requester: limits.activePerRequester,
        active_per_project: limits.activePerProject,
        queued_jobs: limits.queuedJobs,
      },
      core: { random: () => 0 },
    })
    return new Real(platen)
  }

  /** People and projects of their own for the next run; what the last one left unfinished is ended. */
  async reset(): Promise<void> {
    await this.platen.query(`UPDATE processing.session SET ended_at = now() WHERE ended_at IS NULL`)
    await this.platen.query(`UPDATE processing.attempt SET lease_expires_at = '-infinity' WHERE ended_at IS NULL`)
    for (const [index, id] of this.jobs.entries()) {
      const owner = this.#users[this.#keys[index]?.requester ?? 0] as string
      await this.#app.processing.cancelJob(owner, id).catch(() => {})
    }
    await this.#app.processing.settleDue()
    this.jobs = []
    this.#keys = []
    this.#sessions = []
    this.#claims = []
    this.#calls = []
    this.#versions.clear()
    const { access, workspace } = this.#app
    this.#instances = Array.from({ length: 3 }, () => randomUUID())
    this.#users = []
    this.#projects = []
    for (let index = 0; index < people; index += 1)
      this.#users.push((await access.createPrincipal(`person ${index}`, 'model')).principal.id)
    // One project each, and some that all of them work on.
    for (let index = 0; index < people + shared; index += 1) {
      const owner = this.#users[index % people] as string
      const settings = { engine: null, entryPath: null, sourceEpoch: null }
      const { project } = await workspace.projects.create(owner, {
        name: `project ${index}`,
        type: 'LATEX',
        settings,
        idempotencyKey: randomUUID(),
      })
      await workspace.files.writeDocument(owner, project.id, 'main.tex', article)
      this.#projects.push(project.id)
      if (index < people) continue
      for (const principalId of this.#users)
        if (principalId !== owner) await access.grant(owner, { projectId: project.id, principalId, role: 'editor' })
    }
  }

  /** The project that a person means by a number: their own, or a shared one. */
  projectOf(requester: number, choice: number): number {
    return choice % (shared + 1) === 0 ? requester : people + (choice % shared)
  }

  async submit(requester: number, project: number): Promise<Verdict> {
    const key = randomUUID()
    const result = await this.#build(requester, project, key).catch((error: Error) => error)
    if (result instanceof QuotaExceededError) return 'quota'
    if (result instanceof Error) {
      if (result.name === 'NotFoundError') return 'not_found'
      throw result
    }
    expect(result.replayed).toBe(false)
    this.jobs.push(result.job.id)
    this.#keys.push({ requester, project, key })
    await this.#until(result.job.id, (state) => state !== 'preparing')
    return 'ok'
  }

  /** The same command again gives the same job, whatever became of it. */
  async submitAgain(index: number): Promise<void> {
    const { requester, project, key } = this.#keys[index] as Submitted
    const { job, replayed } = await this.#build(requester, project, key)
    expect({ id: job.id, replayed }).toEqual({ id: this.jobs[index], replayed: true })
  }

  async openSession(instance: number, slots: number): Promise<void> {
    const worker = this.platen.newWorker()
    const { status } = await worker.open({
      slots,
      instanceId: this.#instances[instance] as ReturnType<typeof randomUUID>,
    })
    expect(status).toBe(201)
    this.#sessions.push(worker)
  }

  async acquire(session: number, permits: number): Promise<number[] | Verdict> {
    const { sessionId } = this.#sessions[session] as WorkerClient
    const body = { processor: 'latex.compile.pdf/v1', permits, expires_in: 0.02 }
    const answer = await this.#call(session, `/sessions/${sessionId}/acquire`, body)
    if (answer.status !== 200) return answer.body.code
    return answer.body.claims.map((claim: { claim_id: string; job_id: string; input: { ticket: string } }) => {
      this.#claims.push({ id: claim.claim_id, inputTicket: claim.input.ticket })
      return this.jobs.indexOf(claim.job_id)
    })
  }

  async heartbeat(claim: number, session: number): Promise<Verdict> {
    return verdictOf(await this.#ofClaim(claim, session, 'heartbeat', {}))
  }

  async stage(claim: number, session: number): Promise<Verdict> {
    const worker = this.#sessions[session] as WorkerClient
    const declared = await worker.declare({ claim_id: this.#claims[claim]?.id } as never, 'pdf', smallPdf)
    if (declared.status !== 201) return verdictOf(declared)
    return verdictOf(await worker.put(declared.body.ticket, smallPdf))
  }

  async complete(claim: number, session: number, job: number): Promise<Verdict> {
    const answer = await this.#ofClaim(claim, session, 'complete', { roles: ['pdf'], diagnostics: [] })
    if (answer.status === 200) await this.#until(this.jobs[job] as string, (state) => state !== 'finalizing')
    return verdictOf(answer)
  }

  async fail(claim: number, session: number, failureClass: string): Promise<Verdict> {
    const body = { failure_class: failureClass, message: 'It failed.', limit: null, diagnostics: [], roles: [] }
    return verdictOf(await this.#ofClaim(claim, session, 'fail', body))
  }

  async release(claim: number, session: number): Promise<Verdict> {
    return verdictOf(await this.#ofClaim(claim, session, 'release', { reason: 'model' }))
  }

  async cancel(job: number): Promise<Verdict> {
    const owner = this.#users[this.#keys[job]?.requester ?? 0] as string
    await this.#app.processing.cancelJob(owner, this.jobs[job] as string)
    return 'ok'
  }

  async drain(session: number): Promise<Verdict> {
    const { sessionId } = this.#sessions[session] as WorkerClient
    return verdictOf(await this.#call(session, `/sessions/${sessionId}/drain`, {}))
  }

  /** What the session is told, as numbers of claims. */
  async sessionHeartbeat(session: number): Promise<{ draining: boolean; cancelled: number[] } | Verdict> {
    const { sessionId } = this.#sessions[session] as WorkerClient
    const answer = await this.#call(session, `/sessions/${sessionId}/heartbeat`, { processors: [] }, { stored: false })
    if (answer.status !== 200) return answer.body.code
    const cancelled = answer.body.cancelled_claims.map((id: string) =>
      this.#claims.findIndex((claim) => claim.id === id),
    )
    return { draining: answer.body.draining, cancelled: cancelled.sort((a: number, b: number) => a - b) }
  }

  async deleteProject(project: number): Promise<void> {
    await this.#app.workspace.projects.remove(
      this.#users[project % people] as string,
      this.#projects[project] as string,
    )
  }

  get calls(): number {
    return this.#calls.length
  }

  /** Sends an answered call once more: the same answer, and no effect. With another payload: a refusal. */
  async repeat(index: number, changed: boolean, sessionEnded: (session: number) => boolean): Promise<void> {
    const call = this.#calls[index] as Call
    const worker = this.#sessions[call.session] as WorkerClient
    // Another Core does not look for claims that are all over.
    if (call.path.endsWith('acquire') && call.core !== this.#app && !(await this.#holdsAnyOf(call))) return
    const body = changed ? { ...(call.body as object), ...otherPayload(call.path) } : call.body
    const answer = await worker.post(call.path, body, { key: call.key })
    if (sessionEnded(call.session)) expect(answer.body.code).toBe('session_lost')
    else if (changed) expect(answer.body.code).toBe('idempotency_key_reused')
    else expect(withoutTickets(answer.body)).toEqual(withoutTickets(call.answer.body))
  }

  async pass(seconds: number): Promise<void> {
    const earlier = (column: string) => `${column} = ${column} - interval '${seconds} seconds'`
    await this.platen.query(`
      UPDATE processing.attempt SET lease_expires_at = CASE
        WHEN lease_expires_at - interval '${seconds} seconds' <= clock_timestamp() THEN '-infinity'
        ELSE lease_expires_at - interval '${seconds} seconds' END
      WHERE ended_at IS NULL`)
    await this.platen.query(`
      UPDATE processing.job SET ${['queue_expires_at', 'claimable_at', 'prepare_expires_at', 'finalization_expires_at'].map(earlier).join(', ')}
      WHERE finished_at IS NULL`)
    await this.platen.query(`UPDATE processing.queue_entry SET ${earlier('expires_at')}`)
  }

  async settleDue(): Promise<void> {
    await this.#app.processing.settleDue()
  }

  /** Core ends and another takes its place; sessions and claims go on. */
  async restartCore(): Promise<void> {
    this.#app = await this.platen.restart()
    for (const session of this.#sessions) session.moveTo(this.platen.url)
  }

  /** Everything that can be observed is as the model has it. */
  async expectSame(model: Model): Promise<void> {
    const rows = await this.platen.query(
      `SELECT id, state, attempt_count, cancel_requested_at IS NOT NULL AS cancel, version::int,
         (SELECT count(*)::int FROM processing.publication p WHERE p.job_id = job.id) AS publications,
         (SELECT count(*)::int FROM processing.artifact a WHERE a.job_id = job.id) AS artifacts,
         EXISTS (SELECT FROM processing.queue_entry q WHERE q.job_id = job.id) AS in_line
       FROM processing.job WHERE id = ANY ($1)`,
      [this.jobs],
    )
    const byId = new Map(rows.map((row) => [row.id, row]))
    const real = this.jobs.map((id) => {
      const { state, attempt_count: attempts, cancel, in_line: inLine, publications, artifacts } = byId.get(id) ?? {}
      return { state, attempts, cancel, inLine, publications, artifacts }
    })
    const published = (state: string) => (state === 'succeeded' ? 1 : 0)
    expect(real).toEqual(
      model.jobs.map(({ state, attempts, cancelRequested }, index) => ({
        state,
        attempts,
        cancel: cancelRequested,
        inLine: model.isInLine(index),
        publications: published(state),
        artifacts: published(state),
      })),
    )
    for (const { id, state, version } of rows) {
      const before = this.#versions.get(id)
      if (before) expect(version).toBeGreaterThanOrEqual(before.version + (state === before.state ? 0 : 1))
      this.#versions.set(id, { state, version })
    }
    const slots = await this.platen.query('SELECT claim_id FROM processing.claim_slot')
    const open = model.claims.flatMap((claim, index) => (claim.open ? [this.#claims[index]?.id] : []))
    expect(slots.map((row) => row.claim_id).sort()).toEqual([...open].sort())
    const unsound = await this.platen.query(
      `SELECT * FROM processing.unsound_turns('latex.compile.pdf/v1', '00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff')`,
    )
    expect(unsound).toEqual([])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.platen[Symbol.asyncDispose]()
  }

  #build(requester: number, project: number, idempotencyKey: string) {
    const latex = { engine: null, entry_path: null, on_error: 'fail' } as const
    const projectId = this.#projects[project] as string
    return this.#app.processing.buildProject(this.#users[requester] as string, { projectId, idempotencyKey, latex })
  }

  #ofClaim(claim: number, session: number, name: string, body: unknown): Promise<WorkerAnswer> {
    const stored = name !== 'heartbeat'
    return this.#call(session, `/claims/${this.#claims[claim]?.id}/${name}`, body, { stored })
  }

  async #call(session: number, path: string, body: unknown, { stored = true } = {}): Promise<WorkerAnswer> {
    const key = randomUUID()
    const answer = await (this.#sessions[session] as WorkerClient).post(path, body, { key })
    const empty = path.endsWith('acquire') && answer.body.claims?.length === 0
    if (stored && answer.status === 200 && !empty && !path.endsWith('drain'))
      this.#calls.push({ session, path, body, key, answer, core: this.#app })
    return answer
  }

  async #holdsAnyOf({ answer }: Call): Promise<boolean> {
    const ids = answer.body.claims.map((claim: { claim_id: string }) => claim.claim_id)
    return (await this.platen.query('SELECT 1 FROM processing.claim_slot WHERE claim_id = ANY ($1)', [ids])).length > 0
  }

  /** Preparation and publication go on by themselves; the next step waits for them. */
  async #until(jobId: string, done: (state: string) => boolean): Promise<void> {
    const changed = Promise.withResolvers<void>()
    const look = async () => {
      const [row] = await this.platen.query('SELECT state FROM processing.job WHERE id = $1', [jobId])
      if (done(row.state)) changed.resolve()
    }
    const unsubscribe = this.#app.processing.subscribe(jobId, () => void look())
    await look()
    await changed.promise
    unsubscribe()
  }
}

const verdictOf = ({ status, body }: WorkerAnswer): Verdict => (status < 300 ? 'ok' : body.code)

const withoutTickets = (body: unknown): unknown =>
  JSON.parse(JSON.stringify(body, (key, value) => (key === 'ticket' ? undefined : value)))

const otherPayload = (path: string): object => {
  if (path.endsWith('acquire')) return { permits: 200 }
  if (path.endsWith('release')) return { reason: 'another' }
  if (path.endsWith('complete')) return { roles: ['pdf', 'log'] }
  return { message: 'Another.' }
}
