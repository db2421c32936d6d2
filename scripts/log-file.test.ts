import { mkdtempSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { LogFile } from './log-file.ts'

function setup(maxBytes = 1000) {
  const directory = mkdtempSync(join(tmpdir(), 'platen-log-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'core.log')
  const open = () => {
    const log = new LogFile(file, maxBytes)
    onTestFinished(() => log.close())
    return { log, write: (text: string) => writeSync(log.descriptor, text) }
  }
  return { file, open, read: (name = file) => readFileSync(name, 'utf8') }
}

test('a log is continued by the next start', () => {
  const { open, read } = setup()
  open().write('first\n')
  open().write('second\n')
  expect(read()).toBe('first\nsecond\n')
})

test('a log that outgrew its bound is moved aside, also while it is written to, and only one old one is kept', () => {
  const { open, read, file } = setup(10)
  const { log, write } = open()
  for (const line of ['aaaaaaaaaaaa\n', 'bbbbbbbbbbbb\n']) {
    write(line)
    log.bound()
  }
  write('c\n')
  expect([read(), read(`${file}.1`)]).toEqual(['c\n', 'bbbbbbbbbbbb\n'])
  expect(log.lastLines(5)).toBe('c')
})

test('a log that is too large at the start is moved aside', () => {
  const { open, read, file } = setup(10)
  open().write('from the last time\n')
  open().write('new\n')
  expect([read(), read(`${file}.1`)]).toEqual(['new\n', 'from the last time\n'])
})

test('the last lines are those of this start, whatever the file held', () => {
  const { open } = setup()
  open().write('old\n')
  const { log, write } = open()
  write('one\ntwo\nthree\n')
  expect(log.lastLines(2)).toBe('two\nthree')
  expect(log.lastLines(9)).toBe('one\ntwo\nthree')
})

test('what was written for people is told from log lines and from warnings of Node', () => {
  const { open } = setup()
  const { log, write } = open()
  write('(node:7) Warning: old\n(Use `node --trace-warnings` …)\n{"level":30}\nplaten.toml:3: enabled: wrong\n')
  expect(log.plainLines()).toBe('platen.toml:3: enabled: wrong')
})
