import { existsSync } from 'node:fs'
import { BubblewrapExecutor } from './bubblewrap.ts'
import type { Executor, ExecutorOptions, ExecutorReadiness } from './executor.ts'
import { probe } from './probe.ts'
import { SubprocessExecutor } from './subprocess.ts'

export type { Executor, ExecutorOptions, ExecutorReadiness, Exit, Program, Workspace } from './executor.ts'
export { hostCommand } from './host-command.ts'

const needed = [
  ['/usr/bin/bwrap', 'bubblewrap'],
  ['/usr/bin/prlimit', 'util-linux'],
  ['/usr/bin/setpriv', 'util-linux'],
] as const

/** Makes an executor and, where it claims to confine, tries whether it does on this host. */
export async function createExecutor(kind: Executor['kind'], options: ExecutorOptions): Promise<ExecutorReadiness> {
  if (kind === 'subprocess') return { ready: true, executor: new SubprocessExecutor(options) }
  if (process.platform !== 'linux') {
    return {
      ready: false,
      reason:
        'The sandbox needs Linux. Elsewhere run the worker in a virtual machine, or with PLATEN_EXECUTOR=subprocess on documents you trust.',
    }
  }
  const missing = new Set(needed.filter(([path]) => !existsSync(path)).map(([, name]) => name))
  if (missing.size > 0)
    return {
      ready: false,
      reason: `The sandbox needs ${[...missing].join(' and ')}: apt-get install ${[...missing].join(' ')}`,
    }
  // One slot more than jobs have, so that the check never takes theirs.
  const reason = await probe(new BubblewrapExecutor({ ...options, slots: 1 }), options.temporaryDirectory)
  return reason === null ? { ready: true, executor: new BubblewrapExecutor(options) } : { ready: false, reason }
}
