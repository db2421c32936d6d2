import { existsSync } from 'node:fs'
import { link, mkdir, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Limits } from '@platen/worker/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createExecutor, type Executor, type Exit } from '../../worker/src/sandbox/index.ts'

const limits: Limits = {
  wall_seconds: 20,
  cpu_seconds: 10,
  memory_bytes: 200_000_000,
  processes: 32,
  file_bytes: 1_000_000,
  workspace_bytes: 10_000_000,
  workspace_files: 500,
  output_bytes: 1_000_000,
}
const environment = { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' }

async function executorOf(kind: Executor['kind']): Promise<Executor> {
  const readiness = await createExecutor(kind, { temporaryDirectory: tmpdir(), slots: 4 })
  if (!readiness.ready) throw new Error(readiness.reason)
  return readiness.executor
}

/** What a shell script came to. */
async function shell(
  executor: Executor,
  script: string,
  more: Partial<Limits> = {},
): Promise<Exclude<Exit, { kind: 'aborted' }>> {
  await using workspace = await executor.open({ limits: { ...limits, ...more }, signal: new AbortController().signal })
  const exit = await workspace.run({ command: '/bin/sh', args: ['-c', script], environment, directory: '' })
  if (exit.kind === 'aborted') throw new Error('nobody aborted it')
  return exit
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

describe.each(['bubblewrap', 'subprocess'] as const)('the %s executor', (kind) => {
  let executor: Executor
  beforeAll(async () => {
    executor = await executorOf(kind)
  })

  it('runs a program on a project and a state of its own, and says how it ended', async () => {
    await using workspace = await executor.open({ limits, signal: new AbortController().signal })
    await mkdir(join(workspace.hostProject, 'a folder'))
    await writeFile(join(workspace.hostProject, 'a folder/in.txt'), 'from outside', { mode: 0o444 })
    const args = [
      '-c',
      `cat in.txt; echo "$GREETING" >&2; echo made > out.txt; echo kept > ${workspace.statePath}/x; exit 3`,
    ]
    const exit = await workspace.run({
      command: '/bin/sh',
      args,
      environment: { ...environment, GREETING: 'hello there' },
      directory: 'a folder',
    })
    expect(exit).toMatchObject({ kind: 'exited', code: 3 })
    expect(exit.kind === 'exited' && exit.output).toContain('from outside')
    expect(exit.kind === 'exited' && exit.output).toContain('hello there')
    const file = await workspace.openResult('a folder/out.txt', 100)
    expect(await file?.readFile('utf8')).toBe('made\n')
    await file?.close()
  })

  const bounds: readonly (readonly [what: string, script: string, name: string, more?: Partial<Limits>])[] = [
    ['an endless loop, by CPU time', 'while :; do :; done', 'cpu_seconds', { cpu_seconds: 1 }],
    ['a long wait, by time', 'sleep 60', 'wall_seconds', { wall_seconds: 0.5 }],
    ['hunger for memory', `perl -e '@a = (1 .. 100_000_000)'`, 'memory_bytes'],
    ['too many files', 'i=0; while :; do i=$((i+1)); : > f$i; done', 'workspace_files'],
    [
      'too many bytes, in many files',
      'i=0; while :; do i=$((i+1)); head -c 900000 /dev/zero > f$i; done',
      'workspace_bytes',
    ],
    ['a flood of output', 'yes', 'output_bytes'],
  ]
  for (const [what, script, name, more = {}] of bounds) {
    it(`stops ${what}, and names the bound`, async () => {
      const exit = await shell(executor, script, more)
      expect(exit).toMatchObject({ kind: 'limit', limit: { name } })
      expect(exit.output.length).toBeLessThan(2_000_000)
    })
  }

  it('leaves no process of a run that is aborted, whatever it did to stay', async () => {
    const abort = new AbortController()
    await using workspace = await executor.open({ limits, signal: abort.signal })
    const script = `trap '' TERM INT HUP; sleep 1001 & sleep 1002 & echo $! > ready; wait`
    const running = workspace.run({ command: '/bin/sh', args: ['-c', script], environment, directory: '' })
    await expect.poll(() => existsSync(join(workspace.hostProject, 'ready'))).toBe(true)
    abort.abort()
    expect(await running).toEqual({ kind: 'aborted' })
  })

  it('does not start what was aborted before', async () => {
    const abort = new AbortController()
    abort.abort()
    await using workspace = await executor.open({ limits, signal: abort.signal })
    expect(await workspace.run({ command: '/bin/sh', args: ['-c', 'sleep 30'], environment, directory: '' })).toEqual({
      kind: 'aborted',
    })
  })

  it('gives its slots back', async () => {
    for (let round = 0; round < 12; round += 1)
      expect(await shell(executor, 'true')).toMatchObject({ kind: 'exited', code: 0 })
  })

  it('opens no link, no second name, no pipe, no folder and nothing too large as a result', async () => {
    await using workspace = await executor.open({ limits, signal: new AbortController().signal })
    const project = workspace.hostProject
    await mkdir(join(project, 'folder'))
    await writeFile(join(project, 'folder/real'), 'x')
    await symlink('/etc/hostname', join(project, 'link'))
    await symlink('folder', join(project, 'linked-folder'))
    await link(join(project, 'folder/real'), join(project, 'second-name'))
    await writeFile(join(project, 'large'), 'x'.repeat(101))
    await writeFile(join(project, 'fits'), 'x'.repeat(100))
    await workspace.run({ command: '/usr/bin/mkfifo', args: ['pipe'], environment, directory: '' })
    for (const path of [
      'link',
      'linked-folder/real',
      'second-name',
      'folder',
      'large',
      'pipe',
      'absent',
      '../x',
      'folder/../fits',
      '',
    ]) {
      expect(await workspace.openResult(path, 100), path).toBeNull()
    }
    const file = await workspace.openResult('fits', 100)
    expect(file).not.toBeNull()
    await file?.close()
  })
})

describe('from inside the sandbox', () => {
  let executor: Executor
  let listener: Server
  let reached = 0
  let port: number
  const secret = 'a-secret-of-the-worker'
  beforeAll(async () => {
    process.env.PLATEN_TEST_SECRET = secret
    executor = await executorOf('bubblewrap')
    listener = createServer(() => {
      reached += 1
    })
    await new Promise<void>((resolve) => listener.listen(0, '0.0.0.0', resolve))
    port = (listener.address() as { port: number }).port
  })
  afterAll(() => {
    delete process.env.PLATEN_TEST_SECRET
    listener.close()
  })

  it('there is no network', async () => {
    const connect = `perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(PeerAddr => "127.0.0.1:${port}", Timeout => 2) ? "reached" : "refused: $!"'`
    expect((await shell(executor, connect)).output).toMatch(/^refused/)
    expect((await shell(executor, 'cat /proc/net/dev | tail -n +3')).output.trim().split('\n')).toHaveLength(1)
    expect(reached).toBe(0)
  })

  it('there is no other process, and none can be signalled', async () => {
    const { output } = await shell(
      executor,
      `ls -d /proc/[0-9]* | wc -l; kill -0 ${process.pid} 2>&1; kill -9 -1; echo after`,
    )
    expect(Number(output.split('\n')[0])).toBeLessThan(8)
    expect(isAlive(process.pid)).toBe(true)
  })

  it('there is no environment but its own, not even in process 1', async () => {
    const { output } = await shell(
      executor,
      `env; tr '\\0' '\\n' < /proc/1/environ; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'`,
    )
    expect(output).not.toContain(secret)
    expect(output).not.toMatch(/PLATEN|TOKEN|SECRET/)
  })

  it('there is no file of the host but its toolchains, and nothing of them can be changed', async () => {
    const { output } = await shell(
      executor,
      `for f in /etc/passwd /etc/shadow /etc/hostname /root /home /proc/1/root/etc/passwd ${tmpdir()}/platen-* /work /sys /var/log; do [ -e "$f" ] && ls -d "$f"; done
       for d in / /usr /usr/bin /etc /dev /proc/sys/kernel /lib; do ( : > $d/x ) 2>/dev/null && echo WROTE $d; done; true`,
    )
    expect(output).toBe('')
  })

  it('there is no identity, no right and no way to a new one', async () => {
    const { output } = await shell(
      executor,
      `id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/self/status; unshare --user true && echo ESCAPED; mount -t tmpfs x /tmp && echo MOUNTED; true`,
    )
    expect(output).toMatch(/^1000$/m)
    expect(output).toMatch(/^CapEff:\s+0+$/m)
    expect(output).toMatch(/^NoNewPrivs:\s+1$/m)
    expect(output).not.toMatch(/ESCAPED|MOUNTED/)
  })

  it('no host path is told', async () => {
    const { output } = await shell(executor, `cat /proc/1/cmdline /proc/self/cmdline | tr '\\0' ' '; pwd; env`)
    expect(output).not.toContain(`${tmpdir()}/platen-`)
  })

  it('a fork bomb stops at the bound on processes, and its host goes on', async () => {
    const bomb = `perl -e 'my $n = 0; for (1 .. 300) { my $p = fork; if (!defined $p) { last } elsif ($p == 0) { sleep 20; exit } $n++ } print "forked $n\\n"'`
    const { output } = await shell(executor, bomb, { wall_seconds: 5 })
    expect(Number(/forked (\d+)/.exec(output)?.[1])).toBeLessThan(32)
  })

  it('one large file stops at its bound', async () => {
    const { output } = await shell(executor, 'head -c 5000000 /dev/zero > big; stat -c %s big')
    expect(Number(/^(\d+)$/m.exec(output)?.[1])).toBeLessThanOrEqual(limits.file_bytes)
  })

  it('memory that is a file system is bounded too', async () => {
    const { output } = await shell(
      executor,
      'dd if=/dev/zero of=/dev/shm/x bs=1M count=900 2>&1; dd if=/dev/zero of=/x bs=1M count=1 2>&1; du -sm /dev/shm | cut -f1',
      { file_bytes: 2_000_000_000 },
    )
    expect(Number(output.trim().split('\n').at(-1))).toBeLessThanOrEqual(16)
  })

  it('one run leaves nothing for the next', async () => {
    await shell(executor, 'echo mine > /tmp/left; echo mine > /dev/shm/left; echo mine > /job/left')
    expect((await shell(executor, 'ls /tmp /dev/shm /job /state')).output).not.toContain('left')
  })
})
