import { readFile } from 'node:fs/promises'

const pageBytes = 4096
const ticksPerSecond = 100

export interface TreeUse {
  readonly processes: number
  readonly memoryBytes: number
  /** Of living processes and of those that their parents have waited for. */
  readonly cpuSeconds: number
}

/** What a process and all its descendants use now. Those that end meanwhile are left out. */
export async function measureTree(root: number): Promise<TreeUse> {
  let processes = 0
  let memoryBytes = 0
  let cpuSeconds = 0
  const rest = [root]
  for (let pid = rest.pop(); pid !== undefined; pid = rest.pop()) {
    const [stat, statm, children] = await Promise.all([
      text(`/proc/${pid}/stat`),
      text(`/proc/${pid}/statm`),
      text(`/proc/${pid}/task/${pid}/children`),
    ])
    if (stat === null) continue
    processes += 1
    // The second field is the command in brackets, which may hold anything.
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    for (const index of [11, 12, 13, 14]) cpuSeconds += (fields[index] ?? 0) / ticksPerSecond
    const [, resident = 0, shared = 0] = (statm ?? '').split(' ').map(Number)
    memoryBytes += (resident - shared) * pageBytes
    rest.push(...(children ?? '').split(' ').filter(Boolean).map(Number))
  }
  return { processes, memoryBytes, cpuSeconds }
}

const text = (path: string): Promise<string | null> => readFile(path, 'utf8').catch(() => null)
