import { documents } from './documents.ts'
import { NotFoundError, ServerError } from './errors.ts'
import { pause, type Transport } from './transport.ts'
import { isFinished, type Job } from './types.ts'

const pollMilliseconds = 1_000
const longestPauseMilliseconds = 10_000

interface CallOptions {
  readonly signal?: AbortSignal
}

/** A job to follow. */
export class JobHandle {
  readonly #transport: Transport
  #newest: Job

  constructor(job: Job, transport: Transport) {
    this.#newest = job
    this.#transport = transport
  }

  get id(): string {
    return this.#newest.id
  }

  /** The newest state seen here. */
  get newest(): Job {
    return this.#newest
  }

  /**
   * The present state, then each newer one, until the job ends. Lost connections are made anew: the server tells the
   * newest state first, so nothing that matters is missed.
   */
  async *watch({ signal }: CallOptions = {}): AsyncGenerator<Job> {
    let told = ''
    for (let failures = 0; ; ) {
      try {
        for await (const job of this.#transport.subscribe<Job>(documents.watchJob, { id: this.id }, signal)) {
          failures = 0
          if (!this.#accept(job) && told === job.version) continue
          told = job.version
          yield job
          if (isFinished(job.state)) return
        }
        throw new ServerError('PROTOCOL', 'The stream ended before the job did.')
      } catch (error) {
        if (!(error instanceof ServerError)) throw error
        failures += 1
        await pause(Math.min(longestPauseMilliseconds, pollMilliseconds * failures), signal)
        // Where streams are cut, asking still works; while the server is away, both fail and are tried again.
        const job = await this.refresh({ ...(signal && { signal }) }).catch((cause: unknown) => {
          if (cause instanceof ServerError) return null
          throw cause
        })
        if (job !== null && job.version !== told) {
          told = job.version
          yield job
          if (isFinished(job.state)) return
        }
      }
    }
  }

  /** The job once it ended, however it ended. */
  async wait(options: CallOptions = {}): Promise<Job> {
    for await (const job of this.watch(options)) if (isFinished(job.state)) return job
    return this.#newest
  }

  /** Reads the job again. */
  async refresh(options: CallOptions = {}): Promise<Job> {
    const job = await this.#transport.ask<Job | null>(documents.job, { id: this.id }, { ...options, repeatable: true })
    if (job === null) throw new NotFoundError('NOT_FOUND', 'The job is gone, or you may not see it any more.')
    this.#accept(job)
    return job
  }

  /** Asks the job to stop. @returns the job after that: also one that was past stopping */
  async cancel(options: CallOptions = {}): Promise<Job> {
    const { job } = await this.#transport.mutate<{ job: Job }>(
      documents.cancelJob,
      { jobId: this.id },
      { ...options, repeatable: true },
    )
    this.#accept(job)
    return job
  }

  /** Opens a result file with a fresh link, for streaming. @throws {NotFoundError} if the job has no such file */
  async download(role: string, { signal }: CallOptions = {}): Promise<Response> {
    const { artifacts } = await this.refresh({ ...(signal && { signal }) })
    const artifact = artifacts.find((each) => each.role === role)
    if (!artifact) throw new NotFoundError('NOT_FOUND', `The job has no ${role}.`)
    return this.#transport.get(artifact.downloadUrl, signal)
  }

  /** @returns whether it was newer than what we had */
  #accept(job: Job): boolean {
    if (BigInt(job.version) <= BigInt(this.#newest.version)) return false
    this.#newest = job
    return true
  }
}
