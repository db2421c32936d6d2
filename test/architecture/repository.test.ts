import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { repositoryRoot, trackedFiles } from '../support/repository.ts'

const read = (file: string) => readFileSync(join(repositoryRoot, file), 'utf8')

/** Written in pieces, since this file is searched as well. */
const machinePath = new RegExp(`(?<![\\w.$}*])/(${['work', 'root', 'Users', 'home'].join('|')})/[\\w.-]+`)
const registryHost = new RegExp(
  ['registry', String.raw`\.(npmjs|yarnpkg|npmmirror)|https?://[\w.-]*`, String.raw`(registry|npm)[\w.-]*/`].join(''),
)

/** Inputs of tests may name any path: whether TeX may read it is what they are about. */
const isInput = (file: string) => file.startsWith('test/corpus/')

const isBinary = (text: string) => text.includes('\0')

function linesMatching(pattern: RegExp, files: readonly string[]): string[] {
  return files.flatMap((file) => {
    const text = read(file)
    if (isBinary(text)) return []
    return text
      .split('\n')
      .flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1}: ${line.trim()}`] : []))
  })
}

test('no tracked file names a path of somebody’s machine', () => {
  expect(
    linesMatching(
      machinePath,
      trackedFiles().filter((file) => !isInput(file) && !file.endsWith('.test.ts')),
    ),
  ).toEqual([])
})

test('no tracked file names a package registry', () => {
  expect(
    linesMatching(
      registryHost,
      trackedFiles().filter((file) => !isInput(file)),
    ),
  ).toEqual([])
})

test.each(['cd /work' + '/main', `"file": "/home` + `/ann/platen"`])(
  '%s counts as a path of somebody’s machine',
  (line) => {
    expect(line).toMatch(machinePath)
  },
)

test('the lock file holds no download address', () => {
  expect(linesMatching(/"resolved": "(?!server|worker|sdk|web-widget)/, ['package-lock.json'])).toEqual([])
})

test('each migration says first why it is there and which locks it takes', () => {
  for (const file of trackedFiles('migrations/*.sql')) {
    expect(read(file), file).toMatch(/^-- Why: .{20,}\n(-- .*\n)*-- Locks: ./)
  }
})

test('migrations are numbered without a gap', () => {
  const numbers = trackedFiles('migrations/*.sql').map((file) => Number(/(\d{4})_[a-z0-9_]+\.sql$/.exec(file)?.[1]))
  expect(numbers).toEqual(numbers.map((_, index) => index + 1))
})
