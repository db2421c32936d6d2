import { Bell } from '../../../platform/bell.ts'
import { NotFoundError } from '../../../platform/errors.ts'
import { isTerminal, type Processing, type VisibleJob } from '../index.ts'

/** A lost wake-up is made up for by looking anyway, this often. */
const lookAgainMilliseconds = 15_000

/**
 * The newest state of a job, again after each change, until it ends. Access is checked for each state.
 *
 * @throws {NotFoundError} as soon as the viewer may not see the job
 */
export function watchJob(processing: Processing, viewerId: string, jobId: string): AsyncGenerator<VisibleJob> {
  const bell = new Bell()
  const states = watch(processing, viewerId, jobId, bell)
  const end = states.return.bind(states)
  // A generator that waits only ends once it is woken, and a client that left must not hold its place until then.
  states.return = (value) => {
    bell.close()
    return end(value)
  }
  return states
}

async function* watch(processing: Processing, viewerId: string, jobId: string, bell: Bell): AsyncGenerator<VisibleJob> {
  const unsubscribe = processing.subscribe(jobId, () => bell.ring())
  try {
    for (let seen = 0; !bell.closed; ) {
      bell.reset()
      const [job] = await processing.jobs.visible(viewerId, [jobId])
      if (!job) throw new NotFoundError('No job')
      if (job.version > seen) yield job
      seen = Math.max(seen, job.version)
      if (isTerminal(job.state)) return
      await bell.wait(lookAgainMilliseconds)
    }
  } finally {
    unsubscribe()
  }
}
