import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { commandLine, isAlive, until } from '../../scripts/processes.ts'
import { childrenOf } from '../support/children.ts'
import { repositoryRoot } from '../support/repository.ts'

/** `npm start` without npm, on a state of its own. */
async function start(environment: Readonly<Record<string, string>>) {
  const launcher = spawn(process.execPath, [join(repositoryRoot, 'scripts/start.ts')], {
    env: { ...process.env, PORT: '0', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stderr = ''
  launcher.stderr.on('data', (chunk: Buffer) => (stderr += chunk))
  const lines: string[] = []
  const ready = (async () => {
    for await (const line of createInterface({ input: launcher.stdout })) {
      lines.push(line)
      if (line.startsWith('Logs: ')) return
    }
  })()
  const exit = once(launcher, 'exit').then(([code]) => code as number | null)
  await ready
  const capture = (pattern: RegExp) => lines.map((line) => pattern.exec(line)?.[1]).find(Boolean) ?? ''
  return {
    launcher,
    exit,
    stderr: () => stderr,
    url: capture(/^Platen is ready at (http:\/\/127\.0\.0\.1:\d+)$/),
    token: capture(/^Development token: (pl_[\w-]{43})$/),
    [Symbol.asyncDispose]: async () => {
      launcher.kill('SIGTERM')
      await exit
    },
  }
}

async function stateDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'platen-start-'))
  await chmod(path, 0o711)
  return { path: join(path, 'state'), [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

async function viewer(url: string, token: string): Promise<unknown> {
  const response = await fetch(`${url}/graphql`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ query: '{ viewer { id } }' }),
  })
  return response.json()
}

test('one command gives a ready server, a token that works, and after Ctrl-C nothing is left running', async () => {
  await using state = await stateDirectory()
  await using platen = await start({ PLATEN_STATE: state.path })
  expect((await fetch(`${platen.url}/healthz`)).status).toBe(200)
  expect(await viewer(platen.url, platen.token)).toMatchObject({ data: { viewer: { id: expect.any(String) } } })
  const parts = childrenOf(platen.launcher.pid ?? 0)
  expect(parts).toHaveLength(3)
  platen.launcher.kill('SIGINT')
  expect(await platen.exit).toBe(0)
  expect(parts.filter(isAlive)).toEqual([])
})

test('a second start finds the same data and the same token', async () => {
  await using state = await stateDirectory()
  const once = async () => {
    await using platen = await start({ PLATEN_STATE: state.path })
    return [platen.token, await viewer(platen.url, platen.token)]
  }
  expect(await once()).toEqual(await once())
})

test('when a part dies the rest stops, and the launcher names the part', async () => {
  await using state = await stateDirectory()
  await using platen = await start({ PLATEN_STATE: state.path })
  const parts = childrenOf(platen.launcher.pid ?? 0)
  const worker = parts.find((pid) => commandLine(pid)?.includes('worker/src/main.ts'))
  expect(worker).toBeDefined()
  process.kill(Number(worker), 'SIGKILL')
  expect(await platen.exit).toBe(1)
  expect(platen.stderr()).toContain('The worker was ended by SIGKILL')
  expect(parts.filter(isAlive)).toEqual([])
})

test('when the launcher itself is killed, no part outlives it', async () => {
  await using state = await stateDirectory()
  await using platen = await start({ PLATEN_STATE: state.path })
  const parts = childrenOf(platen.launcher.pid ?? 0)
  platen.launcher.kill('SIGKILL')
  await platen.exit
  expect(await until(() => parts.every((pid) => !isAlive(pid)), 20_000)).toBe(true)
})

test.each([
  ['a port that is none', { PORT: 'http' }, 'PORT must be a number from 0 to 65535, not "http".'],
  ['a database address that is none', { DATABASE_URL: 'mysql://x' }, 'DATABASE_URL must look like postgresql://'],
])('%s is answered by one sentence', async (_what, environment, sentence) => {
  await using state = await stateDirectory()
  await using platen = await start({ PLATEN_STATE: state.path, ...environment })
  expect(await platen.exit).toBe(1)
  expect(platen.stderr()).toContain(sentence)
  expect(platen.stderr().trim().split('\n')).toHaveLength(1)
})
