import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { BoundedLog } from './bounded-log.ts'

function setup(maxBytes: number) {
  const directory = mkdtempSync(join(tmpdir(), 'platen-log-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'core.log')
  return { file, open: () => new BoundedLog(file, maxBytes), read: (name = file) => readFileSync(name, 'utf8') }
}

test('a log is continued by the next start', () => {
  const { open, read } = setup(100)
  for (const line of ['first\n', 'second\n']) {
    const log = open()
    log.write(Buffer.from(line))
    log.close()
  }
  expect(read()).toBe('first\nsecond\n')
})

test('a full log is moved aside, and only one old one is kept', () => {
  const { open, read, file } = setup(10)
  const log = open()
  for (const line of ['aaaaaaa\n', 'bbbbbbb\n', 'ccccccc\n']) log.write(Buffer.from(line))
  log.close()
  expect([read(), read(`${file}.1`)]).toEqual(['ccccccc\n', 'bbbbbbb\n'])
})

test('the last lines are those of this process, whatever the file held', () => {
  const { open } = setup(1000)
  const before = open()
  before.write(Buffer.from('old\n'))
  before.close()
  const log = open()
  log.write(Buffer.from('one\ntwo\nthree\n'))
  expect(log.lastLines(2)).toBe('two\nthree')
  expect(log.lastLines(9)).not.toContain('old')
  log.close()
})
