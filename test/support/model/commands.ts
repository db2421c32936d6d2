import fc from 'fast-check'
import { expect } from 'vitest'
import type { FailureClass, Model } from './model.ts'
import type { Real } from './real.ts'

type Command = fc.AsyncCommand<Model, Real>

/** One kind of step: what it does to both, with numbers that choose among what there is at that moment. */
function kind(
  name: string,
  step: (model: Model, real: Real, a: number, b: number) => Promise<void>,
  can: (model: Model, real: Real) => boolean = () => true,
): fc.Arbitrary<Command> {
  return fc.tuple(fc.nat(1000), fc.nat(1000)).map(([a, b]) => ({
    check: () => true,
    async run(model: Model, real: Real) {
      // Decided here and not in `check`: what the real one has counts too.
      if (!can(model, real)) return
      await step(model, real, a, b)
      await real.expectSame(model)
    },
    toString: () => `${name}(${a}, ${b})`,
  }))
}

/** The newest are chosen most: what is old is mostly over. */
const pick = (length: number, number: number): number =>
  length - 1 - (number % Math.min(length, number % 3 === 0 ? length : 3))
const hasJob = (model: Model) => model.jobs.length > 0
const hasSession = (model: Model) => model.sessions.length > 0
const hasClaim = (model: Model) => model.claims.length > 0
const ofClaim = (model: Model, number: number) => {
  const claim = pick(model.claims.length, number)
  const { session, job } = model.claims[claim] as Model['claims'][number]
  return { claim, session, job }
}
const classes: readonly FailureClass[] = ['processor_rejected', 'transient_infrastructure', 'worker_interrupted']

const submit = kind('submit', async (model, real, a, b) => {
  const requester = a % 3
  const project = real.projectOf(requester, b)
  expect(await real.submit(requester, project)).toBe(model.submit(requester, project))
})
const openSession = kind('openSession', async (model, real, a, b) => {
  await real.openSession(a % 3, 1 + (b % 3))
  model.openSession(a % 3, 1 + (b % 3))
})
const acquire = kind(
  'acquire',
  async (model, real, a, b) => {
    const session = pick(model.sessions.length, a)
    expect(await real.acquire(session, 1 + (b % 3))).toEqual(model.acquire(session, 1 + (b % 3)))
  },
  hasSession,
)
const heartbeat = kind(
  'heartbeat',
  async (model, real, a) => {
    const { claim, session } = ofClaim(model, a)
    expect(await real.heartbeat(claim, session)).toBe(model.heartbeat(claim))
  },
  hasClaim,
)
const stage = kind(
  'stage',
  async (model, real, a) => {
    const { claim, session } = ofClaim(model, a)
    expect(await real.stage(claim, session)).toBe(model.stage(claim))
  },
  hasClaim,
)
const complete = kind(
  'complete',
  async (model, real, a) => {
    const { claim, session, job } = ofClaim(model, a)
    expect(await real.complete(claim, session, job)).toBe(model.complete(claim))
  },
  hasClaim,
)
const deliver = kind(
  'deliver',
  async (model, real, a) => {
    const { claim, session, job } = ofClaim(model, a)
    expect(await real.stage(claim, session)).toBe(model.stage(claim))
    expect(await real.complete(claim, session, job)).toBe(model.complete(claim))
  },
  hasClaim,
)
const fail = kind(
  'fail',
  async (model, real, a, b) => {
    const { claim, session } = ofClaim(model, a)
    const failureClass = classes[b % classes.length] as FailureClass
    expect(await real.fail(claim, session, failureClass)).toBe(model.fail(claim, failureClass))
  },
  hasClaim,
)
const release = kind(
  'release',
  async (model, real, a) => {
    const { claim, session } = ofClaim(model, a)
    expect(await real.release(claim, session)).toBe(model.release(claim))
  },
  hasClaim,
)
/** A claim's id in the hands of a session that does not hold it. */
const steal = kind(
  'steal',
  async (model, real, a, b) => {
    const { claim, session } = ofClaim(model, a)
    const thief = b % model.sessions.length
    if (thief === session) return
    const refused = model.sessions[thief]?.ended ? 'session_lost' : 'claim_lost'
    expect(await real.heartbeat(claim, thief)).toBe(refused)
    expect(await real.stage(claim, thief)).toBe(refused)
    expect(await real.fail(claim, thief, 'processor_rejected')).toBe(refused)
    expect(await real.release(claim, thief)).toBe(refused)
    expect(await real.complete(claim, thief, -1)).toBe(refused)
  },
  (model) => hasClaim(model) && model.sessions.length > 1,
)
const cancel = kind(
  'cancel',
  async (model, real, a) => {
    const job = pick(model.jobs.length, a)
    expect(await real.cancel(job)).toBe(model.cancel(job))
  },
  hasJob,
)
/** Asked to cancel when all that is left to do is to say so. */
const cancelStaged = kind(
  'cancelStaged',
  async (model, real, a) => {
    const { claim, session, job } = ofClaim(model, a)
    expect(await real.stage(claim, session)).toBe(model.stage(claim))
    expect(await real.cancel(job)).toBe(model.cancel(job))
    expect(await real.complete(claim, session, job)).toBe(model.complete(claim))
  },
  hasClaim,
)
const submitAgain = kind(
  'submitAgain',
  (model, real, a) => real.submitAgain(a % model.jobs.length),
  (model, _real) => model.jobs.length > 0 && model.deletedProjects.size === 0,
)
const drain = kind(
  'drain',
  async (model, real, a) => {
    const session = pick(model.sessions.length, a)
    expect(await real.drain(session)).toBe(model.drain(session))
  },
  hasSession,
)
const sessionHeartbeat = kind(
  'sessionHeartbeat',
  async (model, real, a) => {
    const index = pick(model.sessions.length, a)
    const session = model.sessions[index] as Model['sessions'][number]
    const expected = { draining: session.draining, cancelled: model.cancelledClaims(index) }
    expect(await real.sessionHeartbeat(index)).toEqual(session.ended ? 'session_lost' : expected)
  },
  hasSession,
)
const repeat = kind(
  'repeat',
  (model, real, a, b) =>
    real.repeat(pick(real.calls, a), b % 3 === 0, (session) => model.sessions[session]?.ended === true),
  (_model, real) => real.calls > 0,
)
const pass = kind('pass', async (model, real, a) => {
  const seconds = [20, 250, 400, 700, 2100][a % 5] as number
  await real.pass(seconds)
  model.pass(seconds)
})
const settleDue = kind('settleDue', async (model, real) => {
  await real.settleDue()
  model.settleDue()
})
const deleteProject = kind(
  'deleteProject',
  async (model, real, a) => {
    const project = a % 5
    await real.deleteProject(project)
    model.deletedProjects.add(project)
  },
  (model) => model.deletedProjects.size === 0 && model.jobs.length > 3,
)
const restartCore = kind('restartCore', (_model, real) => real.restartCore())

const times = (count: number, arbitrary: fc.Arbitrary<Command>) => Array.from({ length: count }, () => arbitrary)

/** Kinds by how often they come. */
export const commands = [
  ...times(8, submit),
  ...times(3, openSession),
  ...times(8, acquire),
  ...times(3, heartbeat),
  ...times(2, stage),
  ...times(3, complete),
  ...times(3, deliver),
  ...times(4, fail),
  ...times(2, release),
  ...times(2, steal),
  ...times(4, cancel),
  cancelStaged,
  ...times(2, submitAgain),
  drain,
  ...times(2, sessionHeartbeat),
  ...times(3, repeat),
  ...times(4, pass),
  ...times(5, settleDue),
  deleteProject,
]
export const rareCommands = [...commands, restartCore]
