import { NotFoundError } from '../../../platform/errors.ts'
import { isTerminal } from '../domain/lifecycle.ts'
import * as attempts from '../store/attempts.ts'
import * as jobs from '../store/jobs.ts'
import { type ProcessingParts, sessionTopic } from './context.ts'
import { announceJob, endJob } from './end-job.ts'

/**
 * Asks a job to stop. Waiting jobs stop at once, running ones when their worker obeys or its lease ends; a job whose
 * result was accepted, or that ended, stays as it is. Serialized with claims and deliveries by the job's row.
 *
 * @returns the job after the call @throws {NotFoundError}
 */
export async function cancelJob(parts: ProcessingParts, viewerId: string, jobId: string): Promise<jobs.Job> {
  const { access, database, signals } = parts
  const { job, changed, sessionId } = await database.transaction('cancel', async (transaction) => {
    const found = await jobs.lock(transaction, jobId)
    const theirs =
      found &&
      (found.requesterId === viewerId ||
        (found.projectId !== null && (await access.may(transaction, viewerId, 'project:submit', found.projectId))))
    if (!found || !theirs) throw new NotFoundError('No job')
    if (isTerminal(found.state) || found.state === 'finalizing' || found.cancelRequested)
      return { job: found, changed: false, sessionId: null }
    if (found.state === 'running') {
      const asked = await jobs.requestCancel(transaction, jobId)
      return { job: asked, changed: true, sessionId: await attempts.findSession(transaction, jobId) }
    }
    return { job: await endJob(parts, transaction, found, 'cancelled'), changed: true, sessionId: null }
  })
  if (changed) announceJob(parts, job)
  // Its worker waits for this, in whatever replica.
  if (sessionId !== null) signals.announce(sessionTopic(sessionId))
  return job
}
