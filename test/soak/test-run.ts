import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { repositoryRoot } from '../support/repository.ts'

export interface TestRun {
  readonly passes: boolean
  /** No test failed, and yet it did not pass: it could not begin. */
  readonly broken: boolean
  /** The first test that failed, or what the run said when it did not come to that. */
  readonly firstFailure: string
}

/** Runs test files of a project in a process of their own, up to the first failure. */
export async function runTests(
  files: readonly string[],
  env: Readonly<Record<string, string>>,
  { directory = repositoryRoot, quiet = false, milliseconds = 3_600_000 } = {},
): Promise<TestRun> {
  const vitest = join(directory, 'node_modules/vitest/vitest.mjs')
  const args = [vitest, 'run', '--bail', '1', '--project', 'integration', '--project', 'unit', ...files]
  const child = spawn(process.execPath, args, {
    cwd: directory,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: milliseconds,
    killSignal: 'SIGKILL',
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output += stripVTControlCharacters(chunk.toString())
      if (!quiet) process.stdout.write(chunk)
    })
  }
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) =>
    child.once('close', (...how) => resolve(how)),
  )
  const failed = /FAIL\s+\S+\s+(.+)/.exec(output)?.[1]
  const how = signal === null ? output.trim().slice(-300) : 'it did not come to an end'
  return {
    passes: code === 0,
    broken: code !== 0 && signal === null && failed === undefined,
    firstFailure: failed ?? how,
  }
}
