import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { Reader } from '../../../platform/database.ts'
import * as jobs from '../store/jobs.ts'

/** What operators watch. Labels are closed sets: no id, no name of a person or project. */
export class ProcessingMetrics {
  readonly finished: Counter<'operation' | 'state' | 'failure_class'>
  readonly duration: Histogram<'operation' | 'state'>
  readonly attemptsEnded: Counter<'operation' | 'outcome'>
  readonly stagedBytes: Counter<'operation' | 'role'>
  readonly contractViolations: Counter<'operation'>
  readonly reaped: Counter<'kind'>
  readonly reaperPasses: Counter<'kind'>
  readonly reaperFailures: Counter<'kind'>

  readonly #registry: Registry

  constructor(registry: Registry, reader: Reader) {
    this.#registry = registry
    const registers = [registry]
    this.finished = new Counter({
      name: 'platen_jobs_finished_total',
      help: 'Jobs that reached a terminal state.',
      labelNames: ['operation', 'state', 'failure_class'],
      registers,
    })
    this.duration = new Histogram({
      name: 'platen_job_seconds',
      help: 'From submission to the terminal state.',
      labelNames: ['operation', 'state'],
      buckets: [0.25, 0.5, 1, 2, 5, 10, 20, 40, 80, 160, 600, 3600],
      registers,
    })
    this.attemptsEnded = new Counter({
      name: 'platen_attempts_ended_total',
      help: 'Attempts by how they ended; lease_expired counts lost workers.',
      labelNames: ['operation', 'outcome'],
      registers,
    })
    this.stagedBytes = new Counter({
      name: 'platen_staged_bytes_total',
      help: 'Bytes that workers uploaded.',
      labelNames: ['operation', 'role'],
      registers,
    })
    this.contractViolations = new Counter({
      name: 'platen_contract_violations_total',
      help: 'Jobs that ended because a worker broke its contract: each one wants an operator to look.',
      labelNames: ['operation'],
      registers,
    })
    this.reaperPasses = new Counter({
      name: 'platen_reaper_passes_total',
      help: 'Reaper passes, by what they look for.',
      labelNames: ['kind'],
      registers,
    })
    this.reaped = new Counter({
      name: 'platen_reaped_total',
      help: 'What reapers settled; queue_heads must stay 0.',
      labelNames: ['kind'],
      registers,
    })
    this.reaperFailures = new Counter({
      name: 'platen_reaper_failures_total',
      help: 'Reaper passes that failed; each is repeated.',
      labelNames: ['kind'],
      registers,
    })
    const age = new Gauge({
      name: 'platen_oldest_job_seconds',
      help: 'Age of the oldest unfinished job.',
      labelNames: ['operation', 'state'],
      registers,
    })
    new Gauge({
      name: 'platen_jobs',
      help: 'Unfinished jobs.',
      labelNames: ['operation', 'state'],
      registers,
      async collect() {
        this.reset()
        age.reset()
        for (const { operation, state, count, oldestSeconds } of await jobs.measureStates(reader)) {
          this.set({ operation, state }, count)
          age.set({ operation, state }, oldestSeconds)
        }
      },
    })
  }

  /** @param count `acquire` calls that wait in this replica */
  watchWaiters(count: () => number): void {
    new Gauge({
      name: 'platen_acquire_waiting',
      help: 'Calls of workers that wait for work here.',
      registers: [this.#registry],
      collect() {
        this.set(count())
      },
    })
  }

  jobEnded(job: jobs.Job): void {
    const { operation, state } = job
    this.finished.inc({ operation, state, failure_class: job.failure?.class ?? '' })
    if (job.finishedAt)
      this.duration.observe({ operation, state }, (job.finishedAt.getTime() - job.createdAt.getTime()) / 1000)
  }
}
