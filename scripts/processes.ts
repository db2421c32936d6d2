import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'

/** The command line of a living process, arguments separated by spaces; undefined if there is no such process. */
export function commandLine(pid: number): string | undefined {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim()
    return execFileSync('ps', ['-o', 'command=', '-p', String(pid)], { encoding: 'utf8' }).trim()
  } catch {
    return undefined
  }
}

/** A process that has ended but whose parent has not asked for its exit code counts as gone. */
export function isAlive(pid: number): boolean {
  if (process.platform === 'linux') return Boolean(commandLine(pid))
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * Polls `condition` every 20 ms.
 *
 * @returns whether it became true within `timeoutMs`
 */
export async function until(condition: () => boolean, timeoutMs: number): Promise<boolean> {
  const end = performance.now() + timeoutMs
  while (!condition()) {
    if (performance.now() > end) return false
    await delay(20)
  }
  return true
}

/** A TCP port of 127.0.0.1 that nothing uses at this moment; another process may still take it first. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new TypeError('a TCP server has an address object')
  return address.port
}

/** Ends a process that may not be our child: `signal` first, SIGKILL if it is still there after `patienceMs`. */
export async function endProcess(pid: number, signal: NodeJS.Signals, patienceMs: number): Promise<void> {
  const send = (which: NodeJS.Signals) => {
    try {
      process.kill(pid, which)
    } catch {
      // Gone already, which is what is wanted.
    }
  }
  send(signal)
  if (await until(() => !isAlive(pid), patienceMs)) return
  send('SIGKILL')
  await until(() => !isAlive(pid), 5_000)
}

const setpriv = '/usr/bin/setpriv'

/** With setpriv the kernel sends `signal` when the launcher dies without a chance to stop its parts (SIGKILL). */
export function dyingWithParent(signal: 'INT' | 'TERM', command: string, args: readonly string[]): [string, string[]] {
  if (process.platform !== 'linux' || !existsSync(setpriv)) return [command, [...args]]
  return [setpriv, ['--pdeathsig', signal, command, ...args]]
}
