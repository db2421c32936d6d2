import { setTimeout as sleep } from 'node:timers/promises'
import { type Logger, pino } from 'pino'
import { Agent } from '../agent/agent.ts'
import { removeLeftOvers } from '../agent/left-overs.ts'
import type { RegisteredProcessor } from '../agent/session.ts'
import { readWorkerConfig, type WorkerConfig } from '../config.ts'
import { createExecutor, type Executor } from '../sandbox/index.ts'
import type { Processor } from './processor.ts'

const inspectAgainMilliseconds = 60_000

/**
 * Runs a worker process with these processors, configured by its environment, until it is told to stop. A processor
 * whose toolchain is missing is left out and looked for again each minute while there is none at all.
 *
 * @throws {WorkerConfigError}
 */
export async function startWorker(processors: readonly Processor[]): Promise<void> {
  const config = readWorkerConfig(process.env)
  // Nothing that this process starts inherits it.
  delete process.env.PLATEN_WORKER_TOKEN
  const log = pino({ level: config.logLevel })
  const stopping = new AbortController()
  stopOnSignals(stopping)
  await removeLeftOvers(config.temporaryDirectory)
  const ready = await waitUntilReady(processors, config, log, stopping.signal)
  if (ready === null) return
  const { coreUrl, workerToken, temporaryDirectory } = config
  let announced = false
  const agent = new Agent({
    coreUrl,
    workerToken,
    temporaryDirectory,
    log,
    ...ready,
    onSession: () => {
      if (!announced) process.send?.({ type: 'ready' })
      announced = true
    },
  })
  stopping.signal.addEventListener('abort', () => {
    log.info('draining')
    void agent.stop(stopping.signal.reason === 'orphaned' ? 0 : config.drainSeconds)
  })
  await agent.run()
}

/** The first signal drains, the second ends the process at once. */
function stopOnSignals(stopping: AbortController): void {
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => {
      if (stopping.signal.aborted) process.exit(1)
      stopping.abort(name)
    })
  }
  process.once('disconnect', () => stopping.abort('orphaned'))
}

interface Ready {
  readonly executor: Executor
  readonly processors: readonly RegisteredProcessor[]
}

async function waitUntilReady(
  processors: readonly Processor[],
  config: WorkerConfig,
  log: Logger,
  stopping: AbortSignal,
): Promise<Ready | null> {
  while (!stopping.aborted) {
    const found = await inspect(processors, config, log)
    if (!('reasons' in found)) return found
    process.send?.({ type: 'waiting', reasons: found.reasons })
    await sleep(inspectAgainMilliseconds, undefined, { signal: stopping }).catch(() => {})
  }
  return null
}

async function inspect(
  processors: readonly Processor[],
  { executor: kind, slots, temporaryDirectory }: WorkerConfig,
  log: Logger,
): Promise<Ready | { readonly reasons: readonly string[] }> {
  // One slot more than jobs: inspections run programs too.
  const sandbox = await createExecutor(kind, { temporaryDirectory, slots: slots * processors.length + 1 })
  if (!sandbox.ready) {
    log.error(sandbox.reason)
    return { reasons: [sandbox.reason] }
  }
  if (kind === 'subprocess') {
    log.warn(
      'RUNNING WITHOUT A SANDBOX: documents can read and change what this user can. For development on documents you trust only.',
    )
  }
  const registered: RegisteredProcessor[] = []
  const reasons: string[] = []
  for (const processor of processors) {
    const { operation, name, version } = processor
    const readiness = await processor.inspect(sandbox.executor)
    if (readiness.ready) {
      const { contract, facts } = readiness
      registered.push({
        processor,
        registration: { operation, name, version, contract, slots, facts: JSON.parse(JSON.stringify(facts)) },
      })
      log.info({ operation, processor_contract: contract }, 'processor is ready')
    } else {
      reasons.push(readiness.reason)
      log.error({ operation }, readiness.reason)
    }
  }
  return registered.length > 0 ? { executor: sandbox.executor, processors: registered } : { reasons }
}
