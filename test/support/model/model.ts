/**
 * The engine as it ought to be: a few lists in memory, one thing after another, and no clock but the one that is told how
 * much time has passed. What the real one does is compared with it after every step.
 */
export const limits = {
  lease: 600,
  queueWait: 2_000,
  backoff: 80,
  attempts: 3,
  freeReleases: 20,
  activePerRequester: 2,
  activePerProject: 1,
  queuedJobs: 6,
} as const

export type JobState = 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled' | 'expired'

export interface ModelJob {
  readonly requester: number
  readonly project: number
  state: JobState
  attempts: number
  limit: number
  cancelRequested: boolean
  queueLeft: number
  /** Seconds of back-off left; null when it stands in line or does not wait. */
  backoffLeft: number | null
}

export interface ModelClaim {
  readonly session: number
  readonly job: number
  leaseLeft: number
  open: boolean
  staged: boolean
}

export interface ModelSession {
  readonly instance: number
  readonly slots: number
  draining: boolean
  ended: boolean
}

export type Verdict =
  | 'ok'
  | 'session_lost'
  | 'claim_lost'
  | 'claim_cancelled'
  | 'result_incomplete'
  | 'quota'
  | 'not_found'

export type FailureClass = 'processor_rejected' | 'transient_infrastructure' | 'worker_interrupted'

export class Model {
  readonly jobs: ModelJob[] = []
  readonly claims: ModelClaim[] = []
  readonly sessions: ModelSession[] = []
  readonly deletedProjects = new Set<number>()

  submit(requester: number, project: number): Verdict {
    if (this.deletedProjects.has(project)) return 'not_found'
    if (this.jobs.filter((job) => job.state === 'queued').length >= limits.queuedJobs) return 'quota'
    const { attempts: limit, queueWait: queueLeft } = limits
    const waits = { state: 'queued', attempts: 0, cancelRequested: false, backoffLeft: null } as const
    this.jobs.push({ requester, project, ...waits, limit, queueLeft })
    return 'ok'
  }

  openSession(instance: number, slots: number): void {
    for (const [index, session] of this.sessions.entries()) {
      if (session.instance !== instance || session.ended) continue
      session.ended = true
      for (const claim of this.claims) if (claim.session === index && claim.open) claim.leaseLeft = 0
    }
    this.sessions.push({ instance, slots, draining: false, ended: false })
  }

  /** The jobs that are claimed: the oldest first among those whose requester and project have room. */
  acquire(sessionIndex: number, permits: number): number[] | Verdict {
    const session = this.sessions[sessionIndex] as ModelSession
    if (session.ended) return 'session_lost'
    if (session.draining) return []
    const taken: number[] = []
    while (taken.length < permits && this.#openClaims((claim) => claim.session === sessionIndex) < session.slots) {
      const next = this.jobs.findIndex((_job, index) => this.#isNext(index))
      if (next < 0) break
      const job = this.jobs[next] as ModelJob
      job.state = 'running'
      job.attempts += 1
      this.claims.push({ session: sessionIndex, job: next, leaseLeft: limits.lease, open: true, staged: false })
      taken.push(next)
    }
    return taken
  }

  heartbeat(claimIndex: number): Verdict {
    return this.#withClaim(claimIndex, (claim) => {
      claim.leaseLeft = limits.lease
      return 'ok'
    })
  }

  stage(claimIndex: number): Verdict {
    return this.#withClaim(claimIndex, (claim, job) => {
      if (job.cancelRequested) return 'claim_cancelled'
      claim.staged = true
      return 'ok'
    })
  }

  complete(claimIndex: number): Verdict {
    return this.#withClaim(claimIndex, (claim, job) => {
      if (job.cancelRequested) return 'claim_cancelled'
      if (!claim.staged) return 'result_incomplete'
      claim.open = false
      // Validated and published before the next step.
      job.state = this.deletedProjects.has(job.project) ? 'failed' : 'succeeded'
      return 'ok'
    })
  }

  fail(claimIndex: number, failureClass: FailureClass): Verdict {
    return this.#withClaim(claimIndex, (claim, job) => {
      this.#settle(claim, job, failureClass)
      return 'ok'
    })
  }

  release(claimIndex: number): Verdict {
    return this.#withClaim(claimIndex, (claim, job) => {
      if (job.limit < limits.freeReleases) {
        // What is handed back does not count, unless the job is cancelled by it.
        if (!job.cancelRequested) job.limit += 1
      }
      this.#settle(claim, job, 'worker_interrupted')
      return 'ok'
    })
  }

  cancel(jobIndex: number): Verdict {
    const job = this.jobs[jobIndex] as ModelJob
    if (job.state === 'queued') job.state = 'cancelled'
    else if (job.state === 'running') job.cancelRequested = true
    return 'ok'
  }

  drain(sessionIndex: number): Verdict {
    const session = this.sessions[sessionIndex] as ModelSession
    if (session.ended) return 'session_lost'
    session.draining = true
    return 'ok'
  }

  /** Claims that a session is told to cancel. */
  cancelledClaims(sessionIndex: number): number[] {
    return [...this.claims.entries()].flatMap(([index, claim]) =>
      claim.open && claim.session === sessionIndex && (this.jobs[claim.job] as ModelJob).cancelRequested ? [index] : [],
    )
  }

  pass(seconds: number): void {
    for (const claim of this.claims) claim.leaseLeft -= seconds
    for (const job of this.jobs) {
      job.queueLeft -= seconds
      if (job.backoffLeft !== null) job.backoffLeft -= seconds
    }
  }

  /** What the reapers settle, in their order. */
  settleDue(): void {
    for (const claim of this.claims) {
      const job = this.jobs[claim.job] as ModelJob
      if (claim.open && claim.leaseLeft <= 0) this.#settle(claim, job, 'worker_interrupted')
    }
    for (const job of this.jobs) {
      if (job.state === 'queued' && job.backoffLeft === null && job.queueLeft <= 0) job.state = 'expired'
    }
    for (const job of this.jobs) {
      if (job.state === 'queued' && job.backoffLeft !== null && job.backoffLeft <= 0) job.backoffLeft = null
    }
  }

  isInLine(index: number): boolean {
    const { state, backoffLeft } = this.jobs[index] as ModelJob
    return state === 'queued' && backoffLeft === null
  }

  #isNext(index: number): boolean {
    const job = this.jobs[index] as ModelJob
    const sameLane = (other: ModelJob) => other.requester === job.requester && other.project === job.project
    const isHead = !this.jobs.some((other, at) => at < index && sameLane(other) && this.isInLine(at))
    return (
      this.isInLine(index) &&
      isHead &&
      job.queueLeft > 0 &&
      this.#openClaims((claim) => this.jobs[claim.job]?.requester === job.requester) < limits.activePerRequester &&
      this.#openClaims((claim) => this.jobs[claim.job]?.project === job.project) < limits.activePerProject
    )
  }

  #openClaims(which: (claim: ModelClaim) => boolean): number {
    return this.claims.filter((claim) => claim.open && which(claim)).length
  }

  #withClaim(index: number, effect: (claim: ModelClaim, job: ModelJob) => Verdict): Verdict {
    const claim = this.claims[index] as ModelClaim
    if (this.sessions[claim.session]?.ended) return 'session_lost'
    if (!claim.open || claim.leaseLeft <= 0) return 'claim_lost'
    return effect(claim, this.jobs[claim.job] as ModelJob)
  }

  #settle(claim: ModelClaim, job: ModelJob, failureClass: FailureClass): void {
    claim.open = false
    claim.staged = false
    if (job.cancelRequested) job.state = 'cancelled'
    else if (failureClass === 'processor_rejected' || job.attempts >= job.limit) job.state = 'failed'
    else {
      job.state = 'queued'
      job.queueLeft = limits.queueWait
      job.backoffLeft =
        failureClass === 'transient_infrastructure' ? (limits.backoff * 2 ** (job.attempts - 1)) / 2 : null
    }
  }
}
