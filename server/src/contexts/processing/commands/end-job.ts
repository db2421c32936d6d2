import type { Transaction } from '../../../platform/database.ts'
import { isTerminal, type JobEvent } from '../domain/lifecycle.ts'
import * as jobs from '../store/jobs.ts'
import * as queue from '../store/queue.ts'
import { jobTopic, type ProcessingParts, workTopic } from './context.ts'

/** Ends a job and lets go of what was kept only for its attempts. The caller holds the row. */
export async function endJob(
  { blobs, workspace }: ProcessingParts,
  transaction: Transaction,
  job: jobs.Job,
  event: JobEvent,
  changes: jobs.Changes = {},
): Promise<jobs.Job> {
  if (job.state === 'queued') await queue.leave(transaction, job.id)
  const ended = await jobs.move(transaction, job, event, changes)
  await blobs.release(transaction, `job-input:${job.id}`)
  await workspace.snapshots.release(transaction, job.id)
  return ended
}

/** Tells everyone who watches; call it after the commit. */
export function announceJob({ log, metrics, signals }: ProcessingParts, job: jobs.Job): void {
  signals.announce(jobTopic(job.id))
  if (job.state === 'queued') signals.announce(workTopic(job.operation))
  if (isTerminal(job.state)) metrics.jobEnded(job)
  log.info(
    {
      job_id: job.id,
      operation: job.operation,
      state: job.state,
      version: job.version,
      failure_class: job.failure?.class,
    },
    'job changed',
  )
}
