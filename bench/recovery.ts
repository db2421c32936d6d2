import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { GraphQLConnection } from './graphql.ts'
import { createProject } from './project.ts'
import { startBenchStack } from './stack.ts'
import { quantile, table } from './statistics.ts'

const endless = fileURLToPath(new URL('./documents/endless', import.meta.url))
const leaseSeconds = 20
const cancelAimMs = 500
const restartAimMs = (leaseSeconds + 2) * 1000

interface JobState {
  readonly state: string
  readonly attempt: number
}

async function submit(api: GraphQLConnection, projectId: string): Promise<string> {
  const { buildProject } = await api.execute<{ buildProject: { job?: { id: string } } }>(
    `mutation ($input: BuildProjectInput!) { buildProject(input: $input) { ... on BuildProjectPayload { job { id } } } }`,
    { input: { projectId, idempotencyKey: randomUUID() } },
  )
  if (!buildProject.job) throw new Error('the build was not accepted')
  return buildProject.job.id
}

async function until(api: GraphQLConnection, id: string, done: (job: JobState) => boolean): Promise<void> {
  const states = api.subscribe<{ job: JobState }>('subscription ($id: ID!) { job(id: $id) { state attempt } }', { id })
  for await (const { job } of states) if (done(job)) return
  throw new Error(`job ${id} ended before`)
}

const cancel = (api: GraphQLConnection, jobId: string) =>
  api.execute('mutation ($input: CancelJobInput!) { cancelJob(input: $input) { __typename } }', { input: { jobId } })

/** Living processes below a process, however deep. */
function descendants(pid: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    try {
      const [state, parent] = readFileSync(`/proc/${name}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')
      if (state !== 'Z') parents.set(Number(name), Number(parent))
    } catch {
      // It ended while we looked.
    }
  }
  const found = [pid]
  for (let at = 0; at < found.length; at += 1)
    for (const [child, parent] of parents) if (parent === found[at]) found.push(child)
  return found.slice(1)
}

/** From the call that cancels to the end of the last process of the compiler. */
async function cancelTimes(
  api: GraphQLConnection,
  projectId: string,
  worker: number,
  count: number,
): Promise<number[]> {
  const times: number[] = []
  for (let sample = 0; sample < count; sample += 1) {
    const id = await submit(api, projectId)
    await until(api, id, ({ state }) => state === 'RUNNING')
    while (descendants(worker).length < 3) await sleep(10)
    await sleep(200)
    const began = performance.now()
    await cancel(api, id)
    while (descendants(worker).length > 0) await sleep(2)
    times.push(performance.now() - began)
    await until(api, id, ({ state }) => state === 'CANCELLED')
  }
  return times
}

/** From the SIGKILL of a worker to the start of its job at another. */
async function restartTimes(
  api: GraphQLConnection,
  projectId: string,
  firstWorker: number,
  startWorker: () => Promise<{ pid: number }>,
  count: number,
): Promise<number[]> {
  const times: number[] = []
  for (let sample = 0, current = firstWorker; sample < count; sample += 1) {
    const id = await submit(api, projectId)
    await until(api, id, ({ state, attempt }) => state === 'RUNNING' && attempt === 1)
    // The other one waits already when the first is killed.
    const { pid: other } = await startWorker()
    await sleep(500)
    const began = performance.now()
    process.kill(current, 'SIGKILL')
    await until(api, id, ({ state, attempt }) => state === 'RUNNING' && attempt === 2)
    times.push(performance.now() - began)
    await cancel(api, id)
    await until(api, id, ({ state }) => state === 'CANCELLED')
    current = other
  }
  return times
}

/** How fast a cancellation reaches the last process, and a lost worker's job another worker. */
export async function recovery(runs: number): Promise<{ readonly text: string; readonly data: unknown }> {
  await using stack = await startBenchStack()
  const api = new GraphQLConnection(stack.url, stack.token)
  const projectId = await createProject(api, endless, 'main.tex')
  if (!stack.worker) throw new Error('there is no worker to measure')
  const cancelMs = await cancelTimes(api, projectId, stack.worker.pid, runs * 10)
  const restartMs = await restartTimes(api, projectId, stack.worker.pid, stack.startWorker, Math.max(3, runs))
  const row = (name: string, times: readonly number[], aim: number) => [
    name,
    String(times.length),
    quantile(times, 0.5).toFixed(0),
    quantile(times, 0.95).toFixed(0),
    `p95 ≤ ${aim}`,
    quantile(times, 0.95) <= aim ? 'met' : 'missed',
  ]
  const text = table([
    ['what', 'samples', 'p50 (ms)', 'p95 (ms)', 'aim', ''],
    row('cancel until all processes are gone', cancelMs, cancelAimMs),
    row(`worker killed until its job runs elsewhere (lease ${leaseSeconds} s)`, restartMs, restartAimMs),
  ])
  return { text, data: { cancelMs, restartMs, leaseSeconds } }
}
