import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { repositoryRoot } from '../support/repository.ts'

/** Runs test files of this project in a process of their own. @returns whether they pass */
export function runTests(
  files: readonly string[],
  env: Readonly<Record<string, string>>,
  { directory = repositoryRoot, quiet = false, milliseconds = 3_600_000 } = {},
): Promise<boolean> {
  const vitest = join(directory, 'node_modules/vitest/vitest.mjs')
  const args = [vitest, 'run', '--bail', '1', '--project', 'integration', '--project', 'unit', ...files]
  const child = spawn(process.execPath, args, {
    cwd: directory,
    env: { ...process.env, ...env },
    stdio: quiet ? 'ignore' : 'inherit',
    timeout: milliseconds,
  })
  return new Promise((resolve) => child.once('exit', (code) => resolve(code === 0)))
}
