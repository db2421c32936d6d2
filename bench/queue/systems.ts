import { connected } from './cluster.ts'
import { countLine, Engine, type Limits, newIds, seed } from './platen.ts'

export interface Running {
  /** Takes nothing more, ends what is under way and disconnects. @returns bytes of WAL that this alone has written */
  stop(): Promise<number>
}

/** A queue that is compared, with the set-up that its own documentation recommends for the case. */
export interface System {
  readonly name: string
  /** Database with its schema. */
  readonly template: string
  /** More than it can do in a block. */
  readonly jobs: number
  load(url: string, count: number): Promise<void>
  /** Handles jobs until stopped. @param onJob is told of each that was handled, by a name that no other job has */
  start(url: string, slots: number, onJob: (id: string) => void): Promise<Running>
  /** Jobs that are still to be done, by the database's account; and what is wrong with it, if anything. */
  left(url: string): Promise<{ left: number; problem: string | null }>
}

/** Wide enough that they never bind: what is compared is the queue. */
const wide = (slots: number): Limits => ({ activePerRequester: slots, activePerProject: slots })

/** People who submit, and the projects of each. */
const requesters = 16
const projectsEach = 4

async function loadPlaten(url: string, count: number): Promise<void> {
  const projects = Array.from({ length: requesters }, () => newIds(projectsEach))
  await connected(url, async (client) => {
    await seed(client, { count, requesters: newIds(requesters), projects })
    await client.query('VACUUM (ANALYZE) processing.job, processing.queue_entry, processing.turn')
  })
}

async function leftOfPlaten(url: string): Promise<{ left: number; problem: string | null }> {
  const line = await connected(url, countLine)
  const { waiting, turns, slots, open, queued, repeated } = line
  const sound = waiting === queued && turns === queued && slots === 0 && open === 0 && repeated === 0
  return { left: queued, problem: sound ? null : JSON.stringify(line) }
}

/** One job a claim: as many workers with one slot each. */
export const platen = (template: string, jobs: number): System => ({
  name: 'Platen',
  template,
  jobs,
  load: loadPlaten,
  start: async (url, slots, onJob) => {
    const engine = await Engine.open(url, slots + 1, wide(slots))
    let stopping = false
    const work = async () => {
      const sessionId = await engine.openSession(1)
      while (!stopping) {
        for (const claim of await engine.claim(sessionId, 1)) {
          await engine.finish(claim)
          onJob(claim.jobId)
        }
      }
    }
    const workers = Array.from({ length: slots }, work)
    return {
      stop: async () => {
        stopping = true
        await Promise.all(workers)
        await engine.close()
        return 0
      },
    }
  },
  left: leftOfPlaten,
})

/** One worker with all slots, which asks for as many jobs as it has slots free, as Platen's worker does. */
export const platenBatched = (template: string, jobs: number): System => ({
  ...platen(template, jobs),
  name: 'Platen, one claim for all free slots',
  start: async (url, slots, onJob) => {
    const engine = await Engine.open(url, slots + 1, wide(slots))
    const sessionId = await engine.openSession(slots)
    let stopping = false
    let free = slots
    let freed = () => {}
    const under = new Set<Promise<void>>()
    const work = async () => {
      while (!stopping) {
        if (free === 0) await new Promise<void>((resolve) => (freed = resolve))
        for (const claim of await engine.claim(sessionId, free)) {
          free -= 1
          const end = engine.finish(claim).then(() => {
            onJob(claim.jobId)
            under.delete(end)
            free += 1
            freed()
          })
          under.add(end)
        }
      }
      await Promise.all(under)
    }
    const working = work()
    return {
      stop: async () => {
        stopping = true
        await working
        await engine.close()
        return 0
      },
    }
  },
})
