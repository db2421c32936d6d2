import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from 'pino'
import { type Claim, type FailRequest, routes } from '../protocol/index.ts'
import type { Executor } from '../sandbox/index.ts'
import type { Outcome, Processor } from '../sdk/processor.ts'
import { BundleError, unpackBundle } from './bundle.ts'
import type { Clock } from './clock.ts'
import type { CoreClient } from './core-client.ts'
import { CoreRefusal } from './core-errors.ts'
import { deliver, OversizedResult } from './deliver.ts'
import { Interruption, LeaseKeeper } from './lease-keeper.ts'
import { storableDiagnostics, storableText } from './storable-text.ts'

const inputTries = 5

export interface AttemptParts {
  /** With the session's token. */
  readonly client: CoreClient
  readonly processor: Processor
  readonly executor: Executor
  readonly temporaryDirectory: string
  readonly clock: Clock
  readonly log: Logger
  /** Called when the attempt failed by the worker's own fault. */
  readonly onBroken?: () => void
}

/** One claim from its receipt to its end, whatever that is. */
export class Attempt {
  readonly claim: Claim
  readonly #parts: AttemptParts
  readonly #lease: LeaseKeeper

  /** @param late the claim may be older than its receipt */
  constructor(claim: Claim, late: boolean, parts: AttemptParts) {
    this.claim = claim
    this.#parts = {
      ...parts,
      log: parts.log.child({ claim_id: claim.claim_id, job_id: claim.job_id, attempt: claim.attempt }),
    }
    this.#lease = new LeaseKeeper({
      renew: (signal, timeoutMilliseconds) =>
        parts.client.call(routes.claimHeartbeat, this.#route, {}, { signal, timeoutMilliseconds }),
      leaseSeconds: claim.lease_seconds,
      renewAtOnce: late,
      clock: parts.clock,
    })
  }

  /** Stops the work; the end is still reported. */
  interrupt(kind: 'cancelled' | 'shutdown'): void {
    this.#lease.interrupt(kind)
  }

  /** Never rejects: what goes wrong is reported to Core, or is Core's to find out by the lease. */
  async run(): Promise<void> {
    const { log, temporaryDirectory } = this.#parts
    const directory = await mkdtemp(join(temporaryDirectory, `platen-${process.pid}-`))
    log.info('attempt began')
    try {
      const outcome = await this.#work(directory)
      await this.#report(outcome)
    } catch (error) {
      await this.#reportTrouble(error).catch((cause: unknown) =>
        log.warn({ err: cause }, 'the end of the attempt could not be reported'),
      )
    } finally {
      this.#lease.end()
      await rm(directory, { recursive: true, force: true }).catch((error: unknown) =>
        log.warn({ err: error }, 'a directory was left behind'),
      )
    }
  }

  get #route() {
    return { claim_id: this.claim.claim_id }
  }

  async #work(directory: string): Promise<Outcome> {
    const { client, executor, processor } = this.#parts
    const { input, limits, options } = this.claim
    const inputDirectory = join(directory, 'input')
    const resultDirectory = join(directory, 'result')
    await mkdir(resultDirectory)
    const fetchInput = async () => {
      await rm(inputDirectory, { recursive: true, force: true })
      await mkdir(inputDirectory)
      return unpackBundle(await client.download(input.ticket, this.#lease.stop), input, inputDirectory)
    }
    const manifest = await client.retrying(fetchInput, this.#lease.stop, { what: 'download', tries: inputTries })
    const signal = this.#lease.stop
    return processor.run({ options, manifest, inputDirectory, resultDirectory, limits, signal, executor })
  }

  async #report(outcome: Outcome): Promise<void> {
    const { client, log } = this.#parts
    const diagnostics = storableDiagnostics(outcome.diagnostics)
    const stop = this.#lease.stop
    if (outcome.kind === 'completed') {
      const roles = await deliver(client, this.claim, outcome.results, stop)
      this.#lease.beginEnd()
      await client.persist(routes.completeClaim, this.#route, { roles, diagnostics }, { signal: stop })
      log.info({ diagnostics: diagnostics.length }, 'attempt delivered')
      return
    }
    const roles = await deliver(client, this.claim, outcome.results, stop)
    await this.#fail({
      failure_class: outcome.failureClass,
      message: storableText(outcome.message, 2000) || 'The build failed.',
      limit: outcome.limit,
      diagnostics,
      roles,
    })
  }

  async #reportTrouble(error: unknown): Promise<void> {
    const { client, log } = this.#parts
    this.#lease.observe(error)
    if (this.#lease.lost.aborted) {
      log.warn({ reason: String(this.#lease.lost.reason) }, 'the claim is lost; nothing of this attempt is used')
      return
    }
    const interruption = this.#lease.stop.reason
    if (interruption instanceof Interruption && interruption.kind === 'shutdown') {
      this.#lease.beginEnd()
      await client.persist(
        routes.releaseClaim,
        this.#route,
        { reason: 'the worker shuts down' },
        { signal: this.#lease.lost },
      )
      log.info('attempt handed back')
      return
    }
    await this.#fail(this.#failureOf(error))
  }

  #failureOf(error: unknown): FailRequest {
    const plain = (failure_class: FailRequest['failure_class'], message: string): FailRequest => ({
      failure_class,
      message: storableText(message, 2000) || 'The attempt failed.',
      limit: null,
      diagnostics: [],
      roles: [],
    })
    if (this.#lease.stop.aborted) return plain('worker_interrupted', 'The job was cancelled.')
    if (error instanceof OversizedResult) {
      const limit = { name: 'output_bytes', value: error.limit } as const
      return { ...plain('resource_limit', error.message), limit }
    }
    if (error instanceof BundleError)
      return plain('contract_violation', `The input is not what it should be: ${error.message}.`)
    if (error instanceof CoreRefusal) return plain('contract_violation', error.message)
    const { log, onBroken } = this.#parts
    log.error({ err: error }, 'the attempt broke')
    onBroken?.()
    return plain('transient_infrastructure', `The worker could not finish: ${(error as Error).message}`)
  }

  async #fail(request: FailRequest): Promise<void> {
    const { client, log } = this.#parts
    this.#lease.beginEnd()
    const { state } = await client.persist(routes.failClaim, this.#route, request, { signal: this.#lease.lost })
    log.info({ failure_class: request.failure_class, state }, 'attempt failed')
  }
}
