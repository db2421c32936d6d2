import { randomBytes } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import type { Limits } from '../protocol/index.ts'
import type { Executor } from './executor.ts'

const limits: Limits = {
  wall_seconds: 10,
  cpu_seconds: 5,
  memory_bytes: 256 * 1024 * 1024,
  processes: 32,
  file_bytes: 1024 * 1024,
  workspace_bytes: 8 * 1024 * 1024,
  workspace_files: 100,
  output_bytes: 1024 * 1024,
}

/** What the hostile script prints for each thing it should not be able to do, and what that means. */
const breaches: Readonly<Record<string, string>> = {
  root: 'the program runs as root',
  capabilities: 'the program has capabilities',
  environment: "the environment of the sandbox's first process can be read",
  processes: 'processes of the host are visible',
  canary: "a file of the worker's user can be read",
  passwd: '/etc/passwd of the host can be read',
  write: 'the system can be written to',
  network: 'a socket of the host can be reached',
}

const script = (canary: string, port: number) => `
[ "$(id -u)" = 0 ] && echo BREACH root
grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status || echo BREACH capabilities
[ -n "$(tr -d '\\0' < /proc/1/environ 2>/dev/null)" ] && echo BREACH environment
# Process 1, this shell and the two that count.
[ "$(ls -d /proc/[0-9]* | wc -l)" -gt 5 ] && echo BREACH processes
[ -e '${canary}' ] && echo BREACH canary
[ -e /etc/passwd ] && echo BREACH passwd
for d in / /usr /etc /dev /proc/sys/kernel; do (echo x > $d/platen-probe) 2>/dev/null && echo BREACH write; done
perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new(PeerAddr => "127.0.0.1:${port}", Timeout => 1)' 2>/dev/null && echo BREACH network
echo COMPLETE
`

/**
 * Runs the real line with a script that tries to get out.
 *
 * @returns null if it held, else what is wrong and what to do
 */
export async function probe(executor: Executor, temporaryDirectory: string): Promise<string | null> {
  const canary = join(temporaryDirectory, `platen-canary-${randomBytes(8).toString('hex')}`)
  await writeFile(canary, 'canary', { mode: 0o600 })
  const listener = createServer()
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as { port: number }
  try {
    await using workspace = await executor.open({ limits, signal: new AbortController().signal })
    const exit = await workspace.run({
      command: '/bin/sh',
      args: ['-c', script(canary, port)],
      environment: { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' },
      directory: '',
    })
    if (exit.kind !== 'exited') return `The sandbox's own check did not end (${exit.kind}).`
    const broken = [...exit.output.matchAll(/^BREACH (\w+)$/gm)].map(([, name = '']) => breaches[name] ?? name)
    if (broken.length > 0) return `The sandbox does not hold on this host: ${[...new Set(broken)].join('; ')}.`
    return exit.output.includes('COMPLETE') ? null : refusal(exit.output)
  } finally {
    listener.close()
    await rm(canary, { force: true })
  }
}

/** Bubblewrap's words for what a host does not let it do, and what an operator can do about each. */
function refusal(output: string): string {
  const said = output.trim().split('\n').at(-1) ?? 'it said nothing'
  if (/uid map|No permissions to creat|Operation not permitted|namespace/i.test(said)) {
    return `This host does not let bubblewrap make a user namespace (${said}). Set sysctl kernel.unprivileged_userns_clone=1; on Ubuntu load an AppArmor profile that lets /usr/bin/bwrap use userns; in a container run with --security-opt systempaths=unconfined and a seccomp profile that allows unshare.`
  }
  return `The sandbox does not start: ${said}`
}
