import { BackgroundWork, Periodic, Watch } from './commands/background.ts'
import { cancelJob } from './commands/cancel-job.ts'
import { acquire } from './commands/claim.ts'
import { type Engine, jobTopic, type ProcessingParts, workTopic } from './commands/context.ts'
import { finalize, takeOver } from './commands/finalize.ts'
import { prepareInput } from './commands/prepare-input.ts'
import { JobReader } from './commands/read-jobs.ts'
import { Reapers } from './commands/reap.ts'
import type { WorkerCall } from './commands/replay.ts'
import { SessionBook } from './commands/session-book.ts'
import { Attempts } from './commands/settle-attempt.ts'
import { type BuildCommand, submitBuild } from './commands/submit-build.ts'
import { Waiters } from './commands/waiters.ts'
import { WorkerSessions } from './commands/worker-sessions.ts'
import * as due from './store/due.ts'
import type { Session } from './store/sessions.ts'

export type { DownloadRight, ProcessingParts, Transfer } from './commands/context.ts'
export { ProcessingMetrics } from './commands/metrics.ts'
export type { Capability, VisibleJob } from './commands/read-jobs.ts'
export type { WorkerCall } from './commands/replay.ts'
export type { BuildCommand } from './commands/submit-build.ts'
export { isTerminal, type JobState } from './domain/lifecycle.ts'
export type { WaitingReason } from './domain/scheduling.ts'
export { OperationUnavailableError, ProjectTypeMismatchError, WorkerRefusal } from './errors.ts'
export type { Artifact } from './store/artifacts.ts'
export type { Session } from './store/sessions.ts'
export { ThreadValidator } from './validation/validator.ts'

/** The commands of Processing, and the work it does by itself between them. */
export interface Processing {
  readonly jobs: JobReader
  readonly sessions: WorkerSessions
  readonly attempts: Attempts
  buildProject(viewerId: string, command: BuildCommand): ReturnType<typeof submitBuild>
  cancelJob(viewerId: string, jobId: string): ReturnType<typeof cancelJob>
  acquire(
    session: Session,
    request: Parameters<typeof acquire>[2],
    call: WorkerCall,
    signal: AbortSignal,
  ): ReturnType<typeof acquire>
  /** Calls `listener` when the job may have changed. @returns what ends it */
  subscribe(jobId: string, listener: () => void): () => void
  downloadUrl(artifactId: string, viewerId: string): string
  /** The artifact a download ticket stands for, if its holder may still have it. */
  download(ticket: string): ReturnType<JobReader['artifact']>
  /** Settles now what is due, as is done again and again anyway; for tests that are their own clock. */
  settleDue(): Promise<unknown>
  close(): Promise<void>
}

export function createProcessing(parts: ProcessingParts): Processing {
  const { database, deployment, downloadTickets, log, metrics, signals, workspace } = parts
  const { limits } = deployment
  const engine: Engine = { ...parts, book: new SessionBook(database, signals), waiters: new Waiters() }
  const { book, waiters } = engine
  const background = new BackgroundWork(log)
  const prepare = (jobId: string) => background.run('prepare', jobId, () => prepareInput(parts, jobId))
  const publish = (jobId: string, token: string) =>
    background.run('finalize', jobId, () => finalize(parts, jobId, token))
  const recover = (jobId: string) =>
    background.run('recover', jobId, async () => {
      const token = await takeOver(parts, jobId)
      if (token !== null) await finalize(parts, jobId, token)
    })
  const jobs = new JobReader(parts)
  const sessions = new WorkerSessions(engine)
  const attempts = new Attempts(parts, publish)
  const reapers = new Reapers(parts, attempts)
  const offered = [...deployment.operations.keys()]
  const subscriptions = offered.map((operation) =>
    signals.subscribe(workTopic(operation), (count) => waiters.announce(operation, count)),
  )
  metrics.watchWaiters(() => waiters.waiting)

  const passes = {
    leases: () => reapers.reapExpiredLeases(),
    waits: () => reapers.reapWaits(),
    backoffs: () => reapers.promoteRested(),
    preparations: async () =>
      (await reapers.takeSilentPreparations()).map(prepare).length + (await reapers.reapWaits()),
    finalizations: async () => (await reapers.listUnfinalized()).map(recover).length,
  }
  const watch = new Watch(log, metrics, passes, limits.reaperSeconds, async () => {
    const found = await due.look(database.pool, { leaseSeconds: limits.leaseSeconds, operations: offered })
    for (const operation of found.waiting) waiters.sweep(operation)
    return found
  })
  const periodic = new Periodic(log, metrics, [
    ['liveness', (limits.sessionHeartbeatSeconds * 4) / 5, () => book.flush()],
    ['queue_heads', limits.sweepSeconds / 4, () => reapers.repairQueue()],
    ['sessions', limits.sweepSeconds, () => sessions.sweep()],
    ['keys', limits.sweepSeconds, () => reapers.sweepKeys()],
    ['project_keys', limits.sweepSeconds, () => workspace.projects.sweepKeys()],
    ['uploads', limits.sweepSeconds, () => workspace.uploads.sweep()],
    ['staging', limits.sweepSeconds, () => reapers.sweepStaging()],
    ['retention', limits.sweepSeconds, () => reapers.sweepRetention()],
    ['frozen_texts', limits.sweepSeconds, () => workspace.snapshots.sweep()],
    ['blobs', limits.sweepSeconds, async () => (await parts.blobs.sweep()).blobs],
  ])
  return {
    jobs,
    sessions,
    attempts,
    buildProject: (viewerId, command) => submitBuild(parts, prepare, viewerId, command),
    cancelJob: (viewerId, jobId) => cancelJob(parts, viewerId, jobId),
    acquire: (session, request, call, signal) => acquire(engine, session, request, call, signal),
    subscribe: (jobId, listener) => parts.signals.subscribe(jobTopic(jobId), listener),
    downloadUrl: (artifact, viewer) =>
      `/downloads/${downloadTickets.mint({ artifact, viewer }, limits.downloadTicketSeconds)}`,
    download: async (ticket) => {
      const right = downloadTickets.open(ticket)
      return right && jobs.artifact(right.viewer, right.artifact)
    },
    settleDue: () => watch.once(),
    close: async () => {
      for (const unsubscribe of subscriptions) unsubscribe()
      await watch.close()
      await periodic.close()
      await background.close()
      book.close()
    },
  }
}
