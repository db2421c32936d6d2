import type { ChildProcess } from 'node:child_process'
import type { LimitName, Limits } from '../protocol/index.ts'
import { measureDirectory } from './directory-size.ts'
import type { Exit, Usage } from './executor.ts'
import { measureTree } from './process-tree.ts'

/** Standard output and error past this are a flood. */
const outputBytes = 32 * 1024 * 1024
const keptOutputBytes = 256 * 1024
const processTickMilliseconds = 100
const directoryTickMilliseconds = 300

/** A job that wants every processor leaves the agent enough to renew its leases, and Core beside it enough to answer. */
export const behindOthers = ['/usr/bin/nice', '-n', '10'] as const

export interface Supervised {
  readonly child: ChildProcess
  readonly directories: readonly string[]
  readonly limits: Limits
  readonly signal: AbortSignal
  /** Kills the whole tree; may be called more than once. */
  kill(): void
}

/** Watches a running program over its bounds until nothing of it is left. */
export async function supervise({ child, directories, limits, signal, kill }: Supervised): Promise<Exit> {
  const started = performance.now()
  const usage = { wallSeconds: 0, cpuSeconds: 0, peakMemoryBytes: 0 } satisfies Usage as {
    -readonly [K in keyof Usage]: Usage[K]
  }
  const output = new OutputTail()
  const ended = new AbortController()
  let breach: { name: LimitName; value: number } | null = null
  const stop = (name: LimitName, value: number) => {
    breach ??= { name, value }
    kill()
  }
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk: Buffer) => {
      if (output.add(chunk) > outputBytes) stop('output_bytes', outputBytes)
    })
  }
  const wall = setTimeout(() => stop('wall_seconds', limits.wall_seconds), limits.wall_seconds * 1000)
  signal.addEventListener('abort', kill)
  if (signal.aborted) kill()

  const watchProcesses = repeat(processTickMilliseconds, ended.signal, async () => {
    if (child.pid === undefined) return
    const use = await measureTree(child.pid)
    usage.cpuSeconds = Math.max(usage.cpuSeconds, use.cpuSeconds)
    usage.peakMemoryBytes = Math.max(usage.peakMemoryBytes, use.memoryBytes)
    if (use.memoryBytes > limits.memory_bytes) stop('memory_bytes', limits.memory_bytes)
    if (use.cpuSeconds > limits.cpu_seconds) stop('cpu_seconds', limits.cpu_seconds)
  })
  const bound = { bytes: limits.workspace_bytes, files: limits.workspace_files }
  const watchDirectories = repeat(directoryTickMilliseconds, ended.signal, async () => {
    const sizes = await Promise.all(directories.map((directory) => measureDirectory(directory, bound)))
    const sum = (part: 'bytes' | 'files') => sizes.reduce((total, size) => total + size[part], 0)
    if (sum('bytes') > bound.bytes) stop('workspace_bytes', bound.bytes)
    if (sum('files') > bound.files) stop('workspace_files', bound.files)
  })

  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (exitCode, exitSignal) => resolve(exitCode ?? (exitSignal === null ? 1 : 137)))
  }).finally(() => {
    clearTimeout(wall)
    signal.removeEventListener('abort', kill)
    ended.abort()
  })
  await Promise.all([watchProcesses, watchDirectories])
  usage.wallSeconds = (performance.now() - started) / 1000
  if (signal.aborted) return { kind: 'aborted' }
  if (breach !== null) return { kind: 'limit', limit: breach, output: output.toString(), usage }
  return { kind: 'exited', code, output: output.toString(), usage }
}

/** Runs a check again and again, never twice at once, until the signal aborts. */
async function repeat(milliseconds: number, signal: AbortSignal, check: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, milliseconds)
      signal.addEventListener('abort', done, { once: true })
      function done() {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        resolve()
      }
    })
    if (!signal.aborted) await check()
  }
}

/** The end of a stream, whatever its length. */
class OutputTail {
  #chunks: Buffer[] = []
  #kept = 0
  #total = 0

  /** @returns all that ever came, in bytes */
  add(chunk: Buffer): number {
    this.#chunks.push(chunk)
    this.#kept += chunk.length
    this.#total += chunk.length
    while (this.#kept - (this.#chunks[0]?.length ?? 0) > keptOutputBytes)
      this.#kept -= this.#chunks.shift()?.length ?? 0
    return this.#total
  }

  toString(): string {
    return Buffer.concat(this.#chunks).toString('utf8')
  }
}
