import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'

const parentOf = (pid: number): number | undefined => {
  try {
    // The second field is the command in brackets, which may hold anything.
    return Number(
      readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) \S /s, '')
        .split(' ')[0],
    )
  } catch {
    return undefined
  }
}

/** Ids of the processes that `pid` has started and not yet lost. */
export function childrenOf(pid: number): number[] {
  if (process.platform !== 'linux') {
    const listed = execFileSync('ps', ['-A', '-o', 'ppid=,pid='], { encoding: 'utf8' })
    const pairs = listed
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/\s+/).map(Number))
    return pairs.flatMap(([parent, child]) => (parent === pid && child !== undefined ? [child] : []))
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((each) => parentOf(each) === pid)
}
