// A worker process as any other, but its processor does what the document says, without a sandbox or a compiler.
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { parseFailpoints } from '../../server/src/platform/failpoints.ts'
import { Agent } from '../../worker/src/agent/agent.ts'
import type { Outcome, Processor, Task } from '../../worker/src/sdk/index.ts'
import { smallPdf } from '../support/platen/worker-client.ts'
import { readTask } from './task.ts'

const {
  SOAK_CORE_URL: coreUrl = '',
  SOAK_WORKER_TOKEN: workerToken = '',
  SOAK_FAILPOINTS: failpoints = '',
} = process.env

async function run(task: Task): Promise<Outcome> {
  const { milliseconds, outcome, marker } = readTask(await readFile(join(task.inputDirectory, 'main.tex'), 'utf8'))
  await sleep(milliseconds, undefined, { signal: task.signal })
  const failed = (failureClass: 'processor_rejected' | 'transient_infrastructure') =>
    ({ kind: 'failed', failureClass, message: marker, limit: null, diagnostics: [], results: [] }) as const
  if (outcome === 'rejected') return failed('processor_rejected')
  // Gets better by itself.
  if (outcome === 'transient' && Math.random() < 0.5) return failed('transient_infrastructure')
  const pdf = join(task.resultDirectory, 'pdf')
  const log = join(task.resultDirectory, 'log')
  await writeFile(pdf, Buffer.concat([smallPdf, Buffer.from(`%${marker}\n`)]))
  await writeFile(log, `log of ${marker}\n`)
  const results = [
    { role: 'pdf', mediaType: 'application/pdf', path: pdf },
    { role: 'log', mediaType: 'text/plain', path: log },
  ] as const
  return { kind: 'completed', results, diagnostics: [] }
}

const operation = 'latex.compile.pdf/v1' as const
const contract = 'c'.repeat(64)
const processor: Processor = {
  operation,
  name: 'soak',
  version: '1',
  inspect: async () => ({ ready: true, contract, facts: {} }),
  run,
}
const hits = failpoints === '' ? null : parseFailpoints(failpoints)
const agent = new Agent({
  coreUrl,
  workerToken,
  executor: { kind: 'subprocess', open: () => Promise.reject(new Error('nothing is run here')) },
  processors: [{ processor, registration: { operation, name: 'soak', version: '1', contract, slots: 3, facts: {} } }],
  temporaryDirectory: await mkdtemp(join(tmpdir(), 'platen-soak-worker-')),
  log: pino({ level: 'warn' }),
  ...(hits ? { failpoint: (name: string) => hits.hit(name) } : {}),
  onSession: () => process.send?.({ type: 'ready' }),
})
process.once('SIGTERM', () => void agent.stop(1))
process.once('disconnect', () => process.exit(0))
await agent.run()
process.exit(0)
