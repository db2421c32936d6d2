import { beforeEach, describe, expect, it } from 'vitest'
import { Bell } from '../../../platform/bell.ts'
import { Waiters } from './waiters.ts'

const operation = 'latex.compile.pdf/v1'

describe('calls that wait for work', () => {
  let waiters: Waiters
  let bells: Bell[]
  beforeEach(() => {
    waiters = new Waiters()
    bells = Array.from({ length: 4 }, () => new Bell())
    for (const bell of bells) waiters.enter(operation, bell)
  })
  const rung = () => bells.map((bell) => bell.rung)
  /** A look that found nothing, so that nothing more is known to be there. */
  const settle = () => waiters.foundNothing(operation, waiters.news(operation))

  it('are woken one for one job, the longest waiting first', () => {
    waiters.announce(operation, 1)
    expect(rung()).toEqual([true, false, false, false])
    waiters.announce(operation, 2)
    expect(rung()).toEqual([true, true, true, false])
  })

  it('are not woken for another operation', () => {
    waiters.announce('typst.export.pptx/v1', 3)
    expect(rung()).toEqual([false, false, false, false])
  })

  it('do not look while nothing was announced since a look found nothing', () => {
    expect(waiters.isEmpty(operation)).toBe(false)
    settle()
    expect(waiters.isEmpty(operation)).toBe(true)
    waiters.announce(operation, 1)
    expect(waiters.isEmpty(operation)).toBe(false)
  })

  it('look when something was announced while another looked', () => {
    const before = waiters.news(operation)
    waiters.announce(operation, 1)
    waiters.foundNothing(operation, before)
    expect(waiters.isEmpty(operation)).toBe(false)
  })

  it('leave a job that came while nobody waited to whoever comes next', () => {
    settle()
    for (const bell of bells) waiters.enter(operation, bell)()
    waiters.announce(operation, 1)
    const late = new Bell()
    waiters.enter(operation, late)
    waiters.claimed(operation, 0, false)
    expect(late.rung).toBe(true)
  })

  it('wake one another as long as there is work, when nobody counted it', () => {
    settle()
    waiters.announce(operation, 0)
    expect(rung()).toEqual([true, false, false, false])
    waiters.claimed(operation, 1, true)
    expect(rung()).toEqual([true, true, false, false])
    waiters.foundNothing(operation, waiters.news(operation))
    waiters.claimed(operation, 1, true)
    expect(rung()).toEqual([true, true, false, false])
  })

  it('are woken by the regular look one at a time, and only if somebody waits', () => {
    settle()
    waiters.sweep(operation)
    expect(rung()).toEqual([true, false, false, false])
    const alone = new Waiters()
    alone.foundNothing(operation, alone.news(operation))
    alone.sweep(operation)
    expect(alone.isEmpty(operation)).toBe(true)
  })

  it('are counted', () => {
    expect(waiters.waiting).toBe(4)
    waiters.announce(operation, 3)
    expect(waiters.waiting).toBe(1)
  })
})
