import { describe, expect, it } from 'vitest'
import { activeTasks, initial, reduce } from './state.ts'
import type { Task } from './types.ts'

const task = (id: string, more: Partial<Task> = {}): Task => ({
  id,
  operation: 'latex.compile.pdf/v1',
  state: 'RUNNING',
  phase: 'PROCESSING',
  version: '3',
  attempt: 1,
  createdAt: `2026-01-01T00:00:0${id}Z`,
  finishedAt: null,
  waitingReason: null,
  cancelRequested: false,
  project: null,
  failure: null,
  diagnostics: [],
  artifacts: [],
  ...more,
})

describe('the state of the task center', () => {
  it('lists the newest first', () => {
    const state = reduce(initial, { kind: 'listed', tasks: [task('1'), task('2')] })
    expect(state.tasks.map((each) => each.id)).toEqual(['2', '1'])
    expect(state.connection).toBe('live')
  })

  it('keeps the newer version, whether the late one comes by message or in a list', () => {
    const done = task('1', { state: 'SUCCEEDED', phase: null, version: '10' })
    let state = reduce(initial, { kind: 'task', task: done })
    state = reduce(state, { kind: 'task', task: task('1', { version: '9' }) })
    state = reduce(state, { kind: 'listed', tasks: [task('1', { version: '9' })] })
    expect(state.tasks).toEqual([done])
    expect(activeTasks(state)).toEqual([])
  })

  it('forgets everything of an account that signed out or was refused', () => {
    const filled = reduce(initial, { kind: 'listed', tasks: [task('1')] })
    expect(reduce(filled, { kind: 'account' }).tasks).toEqual([])
    expect(reduce(filled, { kind: 'connection', connection: 'unauthorized' }).tasks).toEqual([])
  })

  it('keeps what it shows while the server is away', () => {
    const filled = reduce(initial, { kind: 'listed', tasks: [task('1')] })
    const away = reduce(filled, { kind: 'connection', connection: 'offline' })
    expect(away.tasks).toHaveLength(1)
  })

  it('opens and closes the findings of a task', () => {
    const open = reduce(initial, { kind: 'expand', id: '1' })
    expect([...open.expanded]).toEqual(['1'])
    expect([...reduce(open, { kind: 'expand', id: '1' }).expanded]).toEqual([])
  })
})
