import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorCode, LaunchError } from './launch-error.ts'
import { commandLine } from './processes.ts'

/** A pid alone says little: after a crash another program may have it. */
interface Holder {
  readonly pid: number
  readonly command: string
}

/** In a container each start may get the same pid and command, so only this tells our own lock from a stale one. */
const held = new Set<string>()

function readHolder(file: string): Holder | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Holder
  } catch {
    // Half-written, or removed by its holder in this moment.
    return undefined
  }
}

/**
 * Makes this process the only one that runs on the state in `directory`.
 *
 * @returns the release
 * @throws {LaunchError} if another process runs on it
 */
export function holdAlone(directory: string): () => void {
  const file = join(directory, 'lock')
  const mine = JSON.stringify({ pid: process.pid, command: commandLine(process.pid) ?? '' } satisfies Holder)
  for (;;) {
    try {
      writeFileSync(file, mine, { flag: 'wx', mode: 0o600 })
      held.add(file)
      return () => {
        rmSync(file, { force: true })
        held.delete(file)
      }
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error
    }
    const holder = readHolder(file)
    if (holder && (holder.pid === process.pid ? held.has(file) : commandLine(holder.pid) === holder.command)) {
      throw new LaunchError(
        `Platen is already running on ${directory}, as process ${holder.pid}. Stop it first (kill ${holder.pid}).`,
      )
    }
    rmSync(file, { force: true })
  }
}
