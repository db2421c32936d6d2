import { appendFileSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { commandLine, endProcess } from './processes.ts'

/** One line each: process id, a blank, command line. The id alone may by then be another program's. */
const listFile = (directory: string) => join(directory, 'parts')

const patienceMs = 2_000

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** Notes a running part, for the case that the launcher dies without stopping it. */
export function rememberPart(directory: string, pid: number): void {
  appendFileSync(listFile(directory), `${pid} ${commandLine(pid) ?? ''}\n`, { mode: 0o600 })
}

/** Ends what an earlier launcher on this directory noted and did not live to stop. Only for who holds the directory alone. */
export async function endLeftOverParts(directory: string): Promise<void> {
  const parts = read(listFile(directory))
    .split('\n')
    .flatMap((line) => {
      const [, pid, command] = /^(\d+) (.+)$/.exec(line) ?? []
      return pid !== undefined && commandLine(Number(pid)) === command ? [Number(pid)] : []
    })
  await Promise.all(parts.map((pid) => endProcess(pid, 'SIGTERM', patienceMs)))
  rmSync(listFile(directory), { force: true })
}
