import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from '../../scripts/postgres.ts'
import { repositoryRoot, trackedFiles } from '../support/repository.ts'
import { runTests } from './test-run.ts'

const layers = {
  interleavings: ['test/integration/interleavings.test.ts'],
  model: ['test/integration/model.test.ts'],
  queue: ['test/integration/queue.test.ts', 'test/integration/constraints.test.ts'],
  protocol: [
    'test/integration/worker-protocol.test.ts',
    'test/integration/job-fates.test.ts',
    'test/integration/replay.test.ts',
  ],
  'idle workers': ['test/integration/idle-workers.test.ts'],
  'database restart': ['test/integration/database-restart.test.ts'],
  units: ['worker/src/agent', 'server/src/contexts/processing/domain'],
} as const
type Layer = keyof typeof layers

/** One line that is broken on purpose. */
interface Mutant {
  readonly name: string
  readonly file: string
  readonly find: string
  readonly replace: string
  /** Where it is looked for, the likeliest first. */
  readonly in: readonly Layer[]
}

const engine = 'migrations/0008_processing_engine.sql'
const claiming = 'migrations/0009_claim_in_one_call.sql'
const line = 'migrations/0006_processing_queue.sql'
const base = 'migrations/0005_processing.sql'
const of = (name: string) => `server/src/contexts/processing/${name}.ts`

const mutants: readonly Mutant[] = [
  {
    name: 'a claim is held for any session',
    file: engine,
    find: 'a.claim_id = claim AND a.session_id = session AND a.ended_at IS NULL',
    replace: 'a.claim_id = claim AND a.ended_at IS NULL',
    in: ['model'],
  },
  {
    name: 'a claim that ended is held',
    file: engine,
    find: 'a.session_id = session AND a.ended_at IS NULL',
    replace: 'a.session_id = session',
    in: ['model'],
  },
  {
    name: 'a lease never ends',
    file: engine,
    find: '$$ SELECT expires > clock_timestamp()',
    replace: '$$ SELECT true OR expires > clock_timestamp()',
    in: ['model'],
  },
  {
    name: 'a restart of the database ends leases',
    file: engine,
    find: "OR (expires > '-infinity' AND",
    replace: "OR (expires > '-infinity' AND false AND",
    in: ['database restart'],
  },
  {
    name: 'the job of a claim is not held',
    file: engine,
    find: 'PERFORM FROM processing.job j WHERE j.id = held FOR NO KEY UPDATE;',
    replace: 'PERFORM FROM processing.job j WHERE j.id = held;',
    in: ['interleavings'],
  },
  {
    name: 'a lease is compared before its claim is held',
    file: engine,
    find: 'IF NOT FOUND OR NOT processing.lease_holds(expires, lease_seconds) THEN RETURN NULL; END IF;',
    replace: 'IF NOT FOUND THEN RETURN NULL; END IF;',
    in: ['model', 'interleavings'],
  },
  {
    name: 'results are declared after the lease',
    file: engine,
    find: 'IF NOT FOUND OR NOT processing.lease_holds(shared.lease_expires_at, lease_seconds) THEN RETURN NULL; END IF;',
    replace: 'IF NOT FOUND THEN RETURN NULL; END IF;',
    in: ['model'],
  },
  {
    name: 'a renewal does not look at the lease',
    file: of('store/attempts'),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a source
    find: '      AND processing.lease_holds(attempt.lease_expires_at, ${leaseSeconds})\n',
    replace: '',
    in: ['model'],
  },
  {
    name: 'a renewal does not look at the session',
    file: of('store/attempts'),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a source
    find: '      AND attempt.session_id = ${sessionId}\n',
    replace: '',
    in: ['model'],
  },
  {
    name: 'a requester is taken without a lock',
    file: engine,
    find: 'IF NOT pg_try_advisory_xact_lock(processing.requester_key(best_requester)) THEN',
    replace: 'IF false THEN',
    in: ['interleavings'],
  },
  {
    name: 'a project is taken without a lock',
    file: engine,
    find: 'IF NOT pg_try_advisory_xact_lock(processing.project_key(best_project)) THEN',
    replace: 'IF false THEN',
    in: ['interleavings'],
  },
  {
    name: 'a claim waits for a job',
    file: engine,
    find: 'FOR NO KEY UPDATE SKIP LOCKED;\n    IF job_id IS NULL',
    replace: 'FOR NO KEY UPDATE;\n    IF job_id IS NULL',
    in: ['interleavings'],
  },
  {
    name: 'one more than a requester may have',
    file: engine,
    find: 'free_requester_slot(best_requester, requester_limit)',
    replace: 'free_requester_slot(best_requester, requester_limit + 1)',
    in: ['queue', 'model', 'interleavings'],
  },
  {
    name: 'the youngest comes first',
    file: engine,
    find: 'WHERE t.operation = op ORDER BY t.head_seq LOOP',
    replace: 'WHERE t.operation = op ORDER BY t.head_seq DESC LOOP',
    in: ['queue', 'model'],
  },
  {
    name: 'the walk ends at the first blocked lane',
    file: engine,
    find: 'EXIT WHEN next_turn.head_seq >= best_seq;',
    replace: 'EXIT WHEN best_seq IS NOT NULL;',
    in: ['queue', 'model'],
  },
  {
    name: 'a job is claimed past its wait',
    file: engine,
    find: "j.state = 'queued' AND j.queue_expires_at > clock_timestamp()",
    replace: "j.state = 'queued'",
    in: ['interleavings', 'model'],
  },
  {
    name: 'nobody moves up in a lane',
    file: line,
    find: 'UPDATE processing.queue_entry SET lane_head = true WHERE job_id = (',
    replace: 'UPDATE processing.queue_entry SET lane_head = false WHERE job_id = (',
    in: ['queue', 'model'],
  },
  {
    name: "a requester's turn keeps its old place",
    file: line,
    find: 'UPDATE processing.turn SET head_seq = oldest, depth = depth - 1',
    replace: 'UPDATE processing.turn SET depth = depth - 1',
    in: ['queue', 'model'],
  },
  {
    name: 'a retry does not become the head of its lane',
    file: engine,
    find: 'IF head.seq > entry.seq THEN',
    replace: 'IF false THEN',
    in: ['queue', 'model'],
  },
  {
    name: 'two attempts of a job may be open',
    file: base,
    find: 'CREATE UNIQUE INDEX attempt_open ON',
    replace: 'CREATE INDEX attempt_open ON',
    in: ['queue'],
  },
  {
    name: 'a slot may be held twice',
    file: line,
    find: '  UNIQUE (requester_id, requester_slot),\n',
    replace: '',
    in: ['queue'],
  },
  {
    name: 'a key does not reserve its call',
    file: engine,
    find: '  RETURN FOUND;',
    replace: '  RETURN true;',
    in: ['model', 'interleavings'],
  },
  {
    name: 'a replay does not compare what was asked',
    file: of('commands/replay'),
    find: 'stored.digest !== digest',
    replace: 'stored.digest === ""',
    in: ['model'],
  },
  {
    name: 'an answer is not stored',
    file: of('commands/replay'),
    find: '      await requests.store(transaction, call, 200, effect.response)\n',
    replace: '',
    in: ['model'],
  },
  {
    name: 'a delivery wins over a cancellation that came first',
    file: of('commands/settle-attempt'),
    find: '      if (job.cancelRequested) throw claimCancelled()\n      const required',
    replace: '      const required',
    in: ['model', 'interleavings'],
  },
  {
    name: 'a slot stays taken when its attempt ended',
    file: of('store/attempts'),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a source
    find: 'DELETE FROM processing.claim_slot WHERE claim_id = ${claimId})',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a source
    replace: 'SELECT FROM processing.claim_slot WHERE claim_id = ${claimId})',
    in: ['model'],
  },
  {
    name: 'bytes count that came after their claim had ended',
    file: of('commands/settle-attempt'),
    find: 'if (!(await attempts.share(transaction, right.claim, session.id, leaseSeconds))) throw claimLost()',
    replace: 'await attempts.share(transaction, right.claim, session.id, leaseSeconds)',
    in: ['protocol'],
  },
  {
    name: 'the reaper does not look again under the lock',
    file: of('commands/reap'),
    find: 'if (!attempt || !(await attempts.isLeaseOver(transaction, claimId, leaseSeconds))) return null',
    replace: 'if (!attempt) return null',
    in: ['interleavings'],
  },
  {
    name: 'a finalizer publishes without its token',
    file: of('store/jobs'),
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a source
    find: "WHERE id = ${id} AND state = 'finalizing' AND finalization_token = ${token}\n",
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a source
    replace: 'WHERE id = ${id}\n',
    in: ['interleavings'],
  },
  {
    name: 'a finalization is taken over within its lease',
    file: of('store/jobs'),
    find: '      AND finalization_expires_at < now()\n',
    replace: '',
    in: ['interleavings'],
  },
  {
    name: 'access is not asked for again at publication',
    file: of('commands/finalize'),
    find: 'if (name === null) return endJob',
    replace: 'if (name === undefined) return endJob',
    in: ['model', 'protocol'],
  },
  {
    name: 'the publication is not part of its transaction',
    file: of('commands/finalize'),
    find: 'await artifacts.insertPublication(transaction, id,',
    replace: 'await artifacts.insertPublication(database.pool as never, id,',
    in: ['protocol'],
  },
  {
    name: 'a job that ends stays in line',
    file: of('commands/end-job'),
    find: "  if (job.state === 'queued') await queue.leave(transaction, job.id)\n",
    replace: '',
    in: ['model'],
  },
  {
    name: 'claims outlive the session that was replaced',
    file: of('commands/worker-sessions'),
    find: '        await attempts.expireLeases(transaction, old)\n',
    replace: '',
    in: ['model'],
  },
  {
    name: 'a session that drains takes claims',
    file: claiming,
    find: 'WHERE s.id = session AND s.ended_at IS NULL AND s.draining_since IS NULL;',
    replace: 'WHERE s.id = session AND s.ended_at IS NULL;',
    in: ['interleavings', 'model'],
  },
  {
    name: 'a drain does not wait for the claim under way',
    file: of('commands/worker-sessions'),
    find: '      await sessions.lockProcessors(transaction, session.id)\n      await sessions.drain',
    replace: '      await sessions.drain',
    in: ['interleavings'],
  },
  {
    name: 'an input is queued whatever became of its job',
    file: of('commands/prepare-input'),
    find: "    if (job?.state !== 'preparing') return null\n    await blobs.hold",
    replace: '    if (!job) return null\n    await blobs.hold',
    in: ['interleavings'],
  },
  {
    name: 'attempts have no bound',
    file: of('domain/failure'),
    find: '|| attempted.number >= attempted.limit',
    replace: '',
    in: ['units', 'model'],
  },
  {
    name: 'a job wakes everybody',
    file: of('commands/waiters'),
    find: '      if (line.pending === 0) return\n      line.pending -= 1\n',
    replace: '',
    in: ['idle workers'],
  },
  {
    name: 'what is remembered of a session is never stale',
    file: of('commands/session-book'),
    find: '        known.stale = true\n',
    replace: '',
    in: ['idle workers', 'model'],
  },
  {
    name: "a worker's deadline counts from the answer",
    file: 'worker/src/agent/lease-keeper.ts',
    find: 'this.#deadline = Math.max(this.#deadline, this.#deadlineFrom(sent))\n        next = sent',
    replace: 'this.#deadline = Math.max(this.#deadline, this.#deadlineFrom(clock.now()))\n        next = sent',
    in: ['units'],
  },
]

/** A copy of the project that may be broken; packages are shared. */
async function copyProject(): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'platen-mutant-'))
  for (const file of trackedFiles()) {
    if (!file.startsWith('test/corpus/')) await cp(join(repositoryRoot, file), join(copy, file))
  }
  for (const room of ['.', 'server', 'worker', 'sdk', 'web-widget']) {
    const packages = join(repositoryRoot, room, 'node_modules')
    await symlink(packages, join(copy, room, 'node_modules')).catch(() => {})
  }
  return copy
}

/** Breaks one line after the other and says which proof found it, and how fast. @returns whether all were found */
export async function runMutants(only = ''): Promise<boolean> {
  const chosen = mutants.filter(({ name }) => new RegExp(only).test(name))
  const copy = await copyProject()
  for (const { name, file, find } of chosen) {
    if (!(await readFile(join(copy, file), 'utf8')).includes(find)) {
      throw new Error(`the mutant "${name}" does not fit ${file} any more`)
    }
  }
  const postgres = await startPostgres({
    directory: join(copy, 'postgres'),
    settings: { fsync: 'off', full_page_writes: 'off', max_connections: '200' },
    say: () => {},
  })
  const env = { PLATEN_TEST_DATABASE_URL: postgres.url, PLATEN_MODEL_RUNS: '100', PLATEN_MODEL_SHRINK: '0' }
  const where = { directory: copy, quiet: true, milliseconds: 240_000 }
  const survivors: string[] = []
  try {
    // What fails already proves nothing.
    for (const layer of new Set(chosen.flatMap((mutant) => mutant.in))) {
      const { passes, firstFailure } = await runTests(layers[layer], env, where)
      if (!passes) throw new Error(`${layer} fails without a mutant: ${firstFailure}`)
    }
    for (const { name, file, find, replace, in: tried } of chosen) {
      const path = join(copy, file)
      const sound = await readFile(path, 'utf8')
      await writeFile(
        path,
        sound.replaceAll(find, () => replace),
      )
      const started = performance.now()
      let found: string | null = null
      for (const layer of tried) {
        const { passes, broken, firstFailure } = await runTests(layers[layer], env, where)
        if (passes) continue
        if (broken) throw new Error(`the mutant "${name}" does not even start: ${firstFailure}`)
        found = `${layer}: ${firstFailure.replaceAll(/\s+/g, ' ').slice(0, 160)}`
        break
      }
      await writeFile(path, sound)
      const seconds = ((performance.now() - started) / 1000).toFixed(1)
      console.log(`${found ? 'found' : 'SURVIVED'} | ${name} | ${found ?? tried.join(', ')} | ${seconds} s`)
      if (!found) survivors.push(name)
    }
  } finally {
    await postgres.stop()
    await rm(copy, { recursive: true, force: true })
  }
  console.log(`mutants ${chosen.length}, found ${chosen.length - survivors.length}, survived ${survivors.length}`)
  return survivors.length === 0
}
