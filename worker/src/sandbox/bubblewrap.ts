import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import type { Writable } from 'node:stream'
import type { Limits } from '../protocol/index.ts'
import type { Executor, ExecutorOptions, Exit, Program, Workspace } from './executor.ts'
import { openResult } from './open-result.ts'
import { Slots } from './slots.ts'
import { behindOthers, supervise } from './supervise.ts'
import { takeWorkspace } from './workspace-directory.ts'

const bwrap = '/usr/bin/bwrap'
/** First of a range of user ids that Debian gives to nobody. Each slot has its own, so that slots cannot meet on the host. */
const firstSlotUid = 600_000
const projectPath = '/job'
const statePath = '/state'
const temporaryBytes = 256 * 1024 * 1024
const sharedMemoryBytes = 16 * 1024 * 1024
const outerKillMilliseconds = 2_000

/** Read-only parts of the host's system that toolchains need; what is not there is left out. */
const systemPaths = [
  '/etc/alternatives',
  '/etc/fonts',
  '/etc/ghostscript',
  '/etc/ld.so.cache',
  '/etc/papersize',
  '/etc/paperspecs',
  '/etc/perl',
  '/etc/texmf',
  '/var/cache/fontconfig',
  '/var/lib/ghostscript',
  '/var/lib/texmf',
]

/** Runs programs in a root of their own: no network, no other process, no file of the host but its toolchains. */
export class BubblewrapExecutor implements Executor {
  readonly kind = 'bubblewrap'
  readonly #options: ExecutorOptions
  readonly #slots: Slots

  constructor(options: ExecutorOptions) {
    this.#options = options
    this.#slots = new Slots(options.slots)
  }

  async open({ limits, signal }: { limits: Limits; signal: AbortSignal }): Promise<Workspace> {
    // Started as root, bubblewrap would leave root's rights on the host's files to the program.
    const uidOf = (slot: number) => (process.getuid?.() === 0 ? firstSlotUid + slot : null)
    const { directory, uid, release } = await takeWorkspace(this.#slots, this.#options.temporaryDirectory, uidOf)
    let handedOver = false
    return {
      hostProject: directory.project,
      hostState: directory.state,
      projectPath,
      statePath,
      run: async (program) => {
        if (!handedOver) await directory.handOver()
        handedOver = true
        return run(program, { project: directory.project, state: directory.state, uid, limits, signal })
      },
      openResult: (path, maxBytes) => openResult(directory.project, path, maxBytes),
      [Symbol.asyncDispose]: release,
    }
  }
}

interface Confinement {
  readonly project: string
  readonly state: string
  readonly uid: number | null
  readonly limits: Limits
  readonly signal: AbortSignal
}

async function run(program: Program, { project, state, uid, limits, signal }: Confinement): Promise<Exit> {
  const [command = bwrap, ...args] = [
    ...(uid === null ? [] : identity(uid)),
    bwrap,
    '--args',
    '3',
    '--',
    ...behindOthers,
    ...resourceLimits(limits),
    program.command,
    ...program.args,
  ]
  // Bubblewrap's own process is 1 inside, and its environment can be read there: it must be empty.
  const child = spawn(command, args, { env: {}, cwd: '/', stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe'] })
  const confinement = child.stdio[3] as Writable
  confinement.on('error', () => {})
  confinement.end(`${confine(program, project, state).join('\0')}\0`)
  return supervise({ child, directories: [project, state], limits, signal, kill: killer(child) })
}

const identity = (uid: number): string[] => [
  '/usr/bin/setpriv',
  '--reuid',
  String(uid),
  '--regid',
  String(uid),
  '--clear-groups',
  '--no-new-privs',
  '--inh-caps=-all',
  '--bounding-set=-all',
]

// Set inside the user namespace, the number of processes is this sandbox's and not its user's.
const resourceLimits = (limits: Limits): string[] => [
  '/usr/bin/prlimit',
  `--nproc=${limits.processes}:${limits.processes}`,
  `--fsize=${limits.file_bytes}`,
  // Behind the watchdog, which counts all processes together and says which bound it was.
  `--cpu=${limits.cpu_seconds + 2}:${limits.cpu_seconds + 3}`,
  '--nofile=512:512',
  '--core=0',
  '--memlock=0',
  '--msgqueue=0',
]

/** Handed over by descriptor: arguments could be read inside, and these name host paths. */
function confine(program: Program, project: string, state: string): string[] {
  return [
    ...[
      '--unshare-user',
      '--unshare-all',
      '--disable-userns',
      '--uid',
      '1000',
      '--gid',
      '1000',
      '--hostname',
      'sandbox',
    ],
    ...['--ro-bind', '/usr', '/usr', '--symlink', 'usr/bin', '/bin', '--symlink', 'usr/sbin', '/sbin'],
    ...['--symlink', 'usr/lib', '/lib', '--symlink', 'usr/lib64', '/lib64'],
    ...systemPaths.filter((path) => existsSync(path)).flatMap((path) => ['--ro-bind', path, path]),
    ...[
      '--proc',
      '/proc',
      '--dev',
      '/dev',
      '--size',
      String(sharedMemoryBytes),
      '--tmpfs',
      '/dev/shm',
      '--remount-ro',
      '/dev',
    ],
    ...['--perms', '1777', '--size', String(temporaryBytes), '--tmpfs', '/tmp'],
    ...['--bind', project, projectPath, '--bind', state, statePath],
    // After every mount: bubblewrap's root is a tmpfs without a bound.
    ...['--remount-ro', '/', '--chdir', program.directory === '' ? projectPath : `${projectPath}/${program.directory}`],
    '--clearenv',
    ...Object.entries(program.environment).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--cap-drop', 'ALL', '--die-with-parent', '--new-session', '--json-status-fd', '4'],
  ]
}

/**
 * Kills process 1 of the sandbox, with which the kernel kills all others, and then bubblewrap reaps it. Killing
 * bubblewrap itself first would leave an unreaped process to whoever is process 1 of the host.
 */
function killer(child: ChildProcess): () => void {
  let inner: number | null = null
  let wanted = false
  let status = ''
  const kill = () => {
    wanted = true
    if (inner !== null) killProcess(inner)
    setTimeout(
      () => child.exitCode === null && child.signalCode === null && child.kill('SIGKILL'),
      outerKillMilliseconds,
    ).unref()
  }
  child.stdio[4]?.on('data', (chunk: Buffer) => {
    status = (status + chunk.toString()).slice(-4096)
    const found = /"child-pid"\s*:\s*(\d+)/.exec(status)
    if (inner === null && found) {
      inner = Number(found[1])
      if (wanted) killProcess(inner)
    }
  })
  child.once('exit', () => {
    inner = null
  })
  return kill
}

function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It ended by itself.
  }
}
