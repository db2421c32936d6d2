import type { Operation } from '@platen/worker/protocol'
import { type WaitingReason, waitingReason } from '../domain/scheduling.ts'
import * as artifacts from '../store/artifacts.ts'
import * as jobs from '../store/jobs.ts'
import * as sessions from '../store/sessions.ts'
import type { ProcessingParts } from './context.ts'
import { isOffered } from './submit-build.ts'
import { liveSeconds } from './worker-sessions.ts'

/** A job as one viewer may see it. */
export interface VisibleJob extends jobs.Job {
  /** The viewer lost the project: only the fact and the state of the job are theirs to see. */
  readonly restricted: boolean
}

export interface Capability {
  readonly operation: Operation
  readonly available: boolean
  readonly processors: readonly sessions.LiveProcessor[]
}

export class JobReader {
  readonly #parts: ProcessingParts

  constructor(parts: ProcessingParts) {
    this.#parts = parts
  }

  /** Those of `ids` that the viewer may see. */
  async visible(viewerId: string, ids: readonly string[]): Promise<readonly VisibleJob[]> {
    return this.#forViewer(viewerId, await jobs.findMany(this.#parts.database.pool, ids))
  }

  /** One page; with a project, of everyone's jobs in it, else of the viewer's own. */
  async page(
    viewerId: string,
    filter: Omit<jobs.JobFilter, 'requesterId'>,
    page: jobs.JobPage,
  ): Promise<readonly VisibleJob[]> {
    const { access, database } = this.#parts
    if (filter.projectId !== null && !(await access.may(database.pool, viewerId, 'project:read', filter.projectId)))
      return []
    const requesterId = filter.projectId === null ? viewerId : null
    return this.#forViewer(viewerId, await jobs.page(database.pool, { ...filter, requesterId }, page))
  }

  artifactsOf(jobIds: readonly string[]): Promise<readonly artifacts.Artifact[]> {
    return artifacts.listOfJobs(this.#parts.database.pool, jobIds)
  }

  /** An artifact that the viewer may have now, or null. */
  async artifact(viewerId: string, id: string): Promise<artifacts.Artifact | null> {
    const [artifact] = await artifacts.findMany(this.#parts.database.pool, [id])
    if (!artifact) return null
    const [job] = await this.visible(viewerId, [artifact.jobId])
    return job && !job.restricted ? artifact : null
  }

  /** Why each of these jobs waits; jobs that do not wait, or are about to start, are absent. */
  async waitingReasons(jobsToExplain: readonly jobs.Job[]): Promise<ReadonlyMap<string, WaitingReason>> {
    const { database, deployment } = this.#parts
    const waiting = jobsToExplain.filter((job) => job.state === 'queued')
    if (waiting.length === 0) return new Map()
    const live = await sessions.listServed(database.pool, liveSeconds(deployment.limits))
    const freeOf = new Map(live.map(({ operation, free }) => [operation, free]))
    const operationOf = new Map(waiting.map((job) => [job.id, job.operation]))
    const facts = await jobs.findWaitingFacts(database.pool, [...operationOf.keys()])
    return new Map(
      facts.flatMap((fact) => {
        const free = freeOf.get(operationOf.get(fact.id) as Operation)
        const reason = waitingReason({ ...fact, served: free !== undefined, free: free === true }, deployment.limits)
        return reason === null ? [] : [[fact.id, reason] as const]
      }),
    )
  }

  async capabilities(): Promise<readonly Capability[]> {
    const { database, deployment } = this.#parts
    const live = await sessions.listLiveProcessors(database.pool, liveSeconds(deployment.limits))
    return [...deployment.operations.keys()]
      .filter((operation) => isOffered(this.#parts, operation))
      .map((operation) => {
        const processors = live.filter((processor) => processor.operation === operation)
        return { operation, available: processors.length > 0, processors }
      })
  }

  async #forViewer(viewerId: string, found: readonly jobs.Job[]): Promise<readonly VisibleJob[]> {
    const { workspace } = this.#parts
    const projectIds = [...new Set(found.flatMap((job) => job.projectId ?? []))]
    const standing = await workspace.projects.visible(viewerId, projectIds)
    const open = new Set(standing.map((project) => project.id))
    return found.flatMap((job) => {
      if (job.projectId !== null && open.has(job.projectId)) return [{ ...job, restricted: false }]
      if (job.requesterId !== viewerId) return []
      return [job.projectId === null ? { ...job, restricted: false } : asAudit(job)]
    })
  }
}

/** What remains visible of a job whose project its requester lost. */
function asAudit(job: jobs.Job): VisibleJob {
  const failure = job.failure && {
    class: job.failure.class,
    message: 'The project is no longer accessible to you.',
    limit: null,
  }
  return { ...job, restricted: true, diagnostics: [], failure, inputDigest: null, options: {} }
}
