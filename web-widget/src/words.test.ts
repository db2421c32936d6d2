import { describe, expect, it } from 'vitest'
import type { Task } from './types.ts'
import { agoOf, sizeOf, spanOf, statusOf } from './words.ts'

const task = (more: Partial<Task>): Task => ({
  id: '1',
  operation: 'latex.compile.pdf/v1',
  state: 'RUNNING',
  phase: 'PROCESSING',
  version: '1',
  attempt: 1,
  createdAt: '2026-01-01T00:00:00Z',
  finishedAt: null,
  waitingReason: null,
  cancelRequested: false,
  project: null,
  failure: null,
  diagnostics: [],
  artifacts: [],
  ...more,
})
const error = { severity: 'ERROR' as const, file: null, line: null, message: 'x', hint: null }
const warning = { ...error, severity: 'WARNING' as const }
const ended = { phase: null, finishedAt: '2026-01-01T00:00:09Z' }

describe('the words of a task', () => {
  const table: readonly (readonly [Partial<Task>, string])[] = [
    [{}, 'Compiling'],
    [{ attempt: 2 }, 'Compiling · attempt 2'],
    [{ cancelRequested: true }, 'Stopping'],
    [{ phase: 'WAITING_FOR_WORKER', waitingReason: 'NO_WORKER' }, 'Waiting for a worker: no worker serves this now'],
    [{ ...ended, state: 'SUCCEEDED' }, 'Done'],
    [{ ...ended, state: 'SUCCEEDED', diagnostics: [warning, warning] }, 'Done, 2 warnings'],
    [{ ...ended, state: 'SUCCEEDED', diagnostics: [error] }, 'Published with 1 error'],
    [{ ...ended, state: 'FAILED', failure: { class: 'RESOURCE_LIMIT', message: '' } }, 'Stopped at a limit'],
    [{ ...ended, state: 'FAILED', failure: { class: 'NEW_CLASS', message: '' } }, 'Failed'],
    [{ ...ended, state: 'CANCELLED' }, 'Cancelled'],
    [{ phase: 'A_NEW_PHASE' }, 'Working'],
  ]
  for (const [more, words] of table) it(`says "${words}"`, () => expect(statusOf(task(more))).toBe(words))

  it('tells spans, ages and sizes as people do', () => {
    expect([spanOf(0), spanOf(59_000), spanOf(61_000), spanOf(3_720_000)]).toEqual([
      '0 s',
      '59 s',
      '1 min 1 s',
      '1 h 2 min',
    ])
    expect(agoOf('2026-01-01T00:00:00Z', Date.parse('2026-01-01T00:10:00Z'))).toBe('10 min ago')
    expect([sizeOf('999'), sizeOf('20480'), sizeOf('2500000')]).toEqual(['999 B', '20 kB', '2.5 MB'])
  })
})
