import { documents } from './documents.ts'
import { NotFoundError, ServerError } from './errors.ts'
import { JobHandle } from './job-handle.ts'
import { Transport, type TransportOptions } from './transport.ts'
import type { Capability, Job, LatexEngine, OnError, Project, ProjectFile, ProjectType } from './types.ts'

export interface CallOptions {
  /** Ends the call; it rejects with the signal's reason. */
  readonly signal?: AbortSignal
}

export interface BuildOptions extends CallOptions {
  /** @default the document's, else the project's */
  readonly engine?: LatexEngine
  /** File to start from. @default the project's, else found */
  readonly entryPath?: string
  /** What becomes of a document with errors. @default 'FAIL' */
  readonly onError?: OnError
  /** Your own id of this command; the same again gives the same job. @default a new one */
  readonly idempotencyKey?: string
}

export interface JobList {
  readonly jobs: readonly Job[]
  /** Give it as `after` for the next page; null at the end. */
  readonly next: string | null
}

/**
 * A Platen server as one principal.
 *
 * @example
 * const platen = new Platen({ url, token })
 * const job = await platen.build(projectId)
 * const { artifacts } = await job.wait()
 */
export class Platen {
  readonly #transport: Transport

  constructor(options: TransportOptions) {
    this.#transport = new Transport(options)
  }

  viewer(options: CallOptions = {}): Promise<{ readonly id: string; readonly name: string }> {
    return this.#transport.ask(documents.viewer, {}, { ...options, repeatable: true })
  }

  capabilities(options: CallOptions = {}): Promise<readonly Capability[]> {
    return this.#transport.ask(documents.capabilities, {}, { ...options, repeatable: true })
  }

  /** @throws {NotFoundError} */
  project(id: string, options: CallOptions = {}): Promise<Project> {
    return this.#transport.ask(documents.project, { id }, { ...options, repeatable: true })
  }

  /** @throws {ValidationError} */
  async createProject(
    name: string,
    type: ProjectType,
    options: CallOptions & { readonly idempotencyKey?: string } = {},
  ): Promise<Project> {
    const input = { name, type, idempotencyKey: options.idempotencyKey ?? crypto.randomUUID() }
    const { project } = await this.#transport.mutate<{ project: Project }>(documents.createProject, input, {
      ...options,
      repeatable: true,
    })
    return project
  }

  /** @throws {ValidationError} @throws {NotFoundError} */
  async writeDocument(projectId: string, path: string, text: string, options: CallOptions = {}): Promise<ProjectFile> {
    const payload = this.#transport.mutate<{ file: ProjectFile }>(
      documents.writeDocument,
      { projectId, path, text },
      { ...options, repeatable: true },
    )
    return (await payload).file
  }

  /** Uploads bytes and makes them a file. @throws {ValidationError} @throws {NotFoundError} */
  async writeAsset(
    projectId: string,
    path: string,
    content: { readonly body: Blob | Uint8Array<ArrayBuffer>; readonly byteLength: number; readonly sha256: string },
    options: CallOptions = {},
  ): Promise<ProjectFile> {
    const again = { ...options, repeatable: true }
    const declared = { byteLength: String(content.byteLength), sha256: content.sha256 }
    const { upload } = await this.#transport.mutate<{ upload: { id: string; url: string } }>(
      documents.createUpload,
      declared,
      again,
    )
    await this.#transport.put(upload.url, content.body, options.signal)
    const input = { projectId, path, uploadId: upload.id }
    return (await this.#transport.mutate<{ file: ProjectFile }>(documents.writeAsset, input, again)).file
  }

  /** @throws {ValidationError} if there is no such file */
  async deleteFile(projectId: string, path: string, options: CallOptions = {}): Promise<void> {
    await this.#transport.mutate(documents.deleteFile, { projectId, path }, { ...options, repeatable: false })
  }

  /**
   * Captures the project as it is and queues a build.
   *
   * @throws {ValidationError} @throws {QuotaExceededError} @throws {NotFoundError}
   */
  async build(projectId: string, options: BuildOptions = {}): Promise<JobHandle> {
    const { engine, entryPath, onError } = options
    const latex = { ...(engine && { engine }), ...(entryPath && { entryPath }), ...(onError && { onError }) }
    const input = { projectId, idempotencyKey: options.idempotencyKey ?? crypto.randomUUID(), latex }
    const { job } = await this.#transport.mutate<{ job: Job }>(documents.buildProject, input, {
      ...options,
      repeatable: true,
    })
    return new JobHandle(job, this.#transport)
  }

  /** @throws {NotFoundError} */
  async job(id: string, options: CallOptions = {}): Promise<JobHandle> {
    const job = await this.#transport.ask<Job | null>(documents.job, { id }, { ...options, repeatable: true })
    if (job === null) throw new NotFoundError('NOT_FOUND', 'No job with this id exists, or you may not see it.')
    return new JobHandle(job, this.#transport)
  }

  /** Jobs of yours, or of everyone in a project, newest first. */
  async jobs(
    options: CallOptions & { readonly projectId?: string; readonly first?: number; readonly after?: string } = {},
  ): Promise<JobList> {
    const { projectId, first = 20, after } = options
    const variables = { first, ...(after && { after }), ...(projectId && { filter: { projectId } }) }
    const page = await this.#transport.ask<JobConnection>(documents.jobs, variables, { ...options, repeatable: true })
    return {
      jobs: page.edges.map((edge) => edge.node),
      next: page.pageInfo.hasNextPage ? page.pageInfo.endCursor : null,
    }
  }

  /** Whether a server answers at this address at all. */
  async isReady(options: CallOptions = {}): Promise<boolean> {
    try {
      await this.#transport.get('/readyz', options.signal)
      return true
    } catch (error) {
      if (error instanceof ServerError) return false
      throw error
    }
  }
}

interface JobConnection {
  readonly edges: readonly { readonly node: Job }[]
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null }
}
