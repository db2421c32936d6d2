import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const repositoryRoot = fileURLToPath(new URL('../../', import.meta.url))

/** Paths of the tracked files that are there, from the root. */
export function trackedFiles(...patterns: string[]): string[] {
  const listed = execFileSync('git', ['ls-files', '-z', '--', ...patterns], { cwd: repositoryRoot, encoding: 'utf8' })
  return listed.split('\0').filter((file) => file !== '' && existsSync(join(repositoryRoot, file)))
}
