import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Stack, startStack } from '../scripts/stack.ts'

export type BenchStack = Pick<Stack, 'url' | 'token' | 'worker' | 'startWorker'> & AsyncDisposable

/** A Platen of its own, with a durable database as in real use, removed afterwards. */
export async function startBenchStack(): Promise<BenchStack> {
  await using cleanup = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'platen-bench-'))
  cleanup.defer(() => rm(directory, { recursive: true, force: true }))
  // PostgreSQL does not run as root and has to get through.
  await chmod(directory, 0o711)
  const stack = cleanup.use(await startStack({ directory, port: 0 }))
  if (stack.waitingReasons.length > 0) throw new Error(`Nothing to measure: ${stack.waitingReasons.join('; ')}`)
  const ownership = cleanup.move()
  const { url, token, worker, startWorker } = stack
  return { url, token, worker, startWorker, [Symbol.asyncDispose]: () => ownership.disposeAsync() }
}
