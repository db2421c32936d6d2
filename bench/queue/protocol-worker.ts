// A worker that compiles nothing: it asks for as many jobs as it has slots free, delivers a page for each, and measures
// its calls. Started by protocol.ts with its orders in the environment; speaks by the same client as Platen's worker.
import { createHash, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { type Claim, routes } from '@platen/worker/protocol'
import { pino } from 'pino'
import { smallPdf } from '../../test/support/platen/worker-client.ts'
import { systemClock } from '../../worker/src/agent/clock.ts'
import { CoreClient } from '../../worker/src/agent/core-client.ts'

const { BENCH_CORE_URL: coreUrl = '', BENCH_TOKEN: token = '', BENCH_SLOTS } = process.env
const slots = Number(BENCH_SLOTS)
const operation = 'latex.compile.pdf/v1'

export interface WorkerReport {
  readonly type: 'report'
  /** Job of each delivery that Core accepted. */
  readonly delivered: readonly string[]
  /** Mean milliseconds of each call, and how many claims one `acquire` brought. */
  readonly steps: Readonly<Record<string, number>>
  readonly processorMs: number
}

const { signal } = new AbortController()
const options = { signal }
const steps = new Map<string, { sum: number; count: number }>()
const delivered: string[] = []
let measuring = false
let stopping = false

function note(name: string, value: number): void {
  if (!measuring) return
  const step = steps.get(name) ?? { sum: 0, count: 0 }
  steps.set(name, { sum: step.sum + value, count: step.count + 1 })
}

async function timed<T>(name: string, call: () => Promise<T>): Promise<T> {
  const began = performance.now()
  const answer = await call()
  note(name, performance.now() - began)
  return answer
}

/** Each result is another one, as real ones are: equal bytes would be looked at once. */
const pageOf = (claim: Claim): Buffer => Buffer.concat([smallPdf, Buffer.from(`% ${claim.claim_id}\n`)])

async function deliver(client: CoreClient, claim: Claim): Promise<void> {
  const bytes = pageOf(claim)
  const parameters = { claim_id: claim.claim_id }
  const declaration = {
    role: 'pdf',
    media_type: 'application/pdf',
    byte_length: bytes.length,
    sha256: createHash('sha256').update(bytes).digest('hex'),
  } as const
  await timed('whole job', async () => {
    const { ticket } = await timed('stage', () => client.call(routes.stageResult, parameters, declaration, options))
    await timed('put', () => client.upload(routes.upload, ticket, Readable.from([bytes]), bytes.length, signal))
    await timed('complete', () =>
      client.call(routes.completeClaim, parameters, { roles: ['pdf'], diagnostics: [] }, options),
    )
  })
  delivered.push(claim.job_id)
}

const first = new CoreClient({ coreUrl, token, clock: systemClock, log: pino({ level: 'silent' }) })
const registration = {
  instance_id: randomUUID(),
  executor: 'bubblewrap' as const,
  processors: [
    { operation, name: 'bench', version: '1', contract: 'c'.repeat(64), slots, facts: { engines: ['pdflatex'] } },
  ],
}
const session = await first.call(routes.openSession, {}, registration as never, options)
const client = first.withToken(session.session_token)
const parameters = { session_id: session.session_id }

async function work(): Promise<void> {
  const under = new Set<Promise<void>>()
  while (!stopping) {
    if (under.size >= slots) await Promise.race(under)
    const permits = slots - under.size
    const ask = { processor: operation, permits, expires_in: 1 } as const
    const { claims } = await timed('acquire', () => client.call(routes.acquire, parameters, ask, options))
    note('claims', claims.length)
    for (const claim of claims) {
      const end = deliver(client, claim).then(() => void under.delete(end))
      under.add(end)
    }
  }
  await Promise.all(under)
  await client.close()
}

const working = work()
process.on('message', async ({ type }: { type: string }) => {
  if (type === 'measure') measuring = true
  if (type === 'rest') measuring = false
  if (type !== 'stop') return
  stopping = true
  await working
  const { user, system } = process.cpuUsage()
  const report: WorkerReport = {
    type: 'report',
    delivered,
    steps: Object.fromEntries([...steps].map(([name, { sum, count }]) => [name, sum / count])),
    processorMs: (user + system) / 1000,
  }
  process.send?.(report, undefined, undefined, () => process.disconnect())
})
