import { readFile } from 'node:fs/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isTerminal, type JobEvent, type JobState, jobStates, moves, next } from './lifecycle.ts'

const events = [...new Set(Object.values(moves).flatMap((from) => Object.keys(from)))] as JobEvent[]

describe('the lifecycle of a job', () => {
  it('ends only in succeeded, failed, cancelled or expired', () => {
    expect(jobStates.filter(isTerminal)).toEqual(['succeeded', 'failed', 'cancelled', 'expired'])
  })

  it('lets nothing cancel or expire a result that was accepted', () => {
    expect(next('finalizing', 'cancelled')).toBeNull()
    expect(next('finalizing', 'waitExpired')).toBeNull()
    expect(next('finalizing', 'requeued')).toBeNull()
  })

  it('reaches success without an attempt only from preparing, by a cache hit', () => {
    const intoSuccess = jobStates.flatMap((state) =>
      events.filter((event) => next(state, event) === 'succeeded').map((event) => `${state} ${event}`),
    )
    expect(intoSuccess).toEqual(['preparing cacheHit', 'finalizing published'])
  })

  it('keeps a terminal state whatever happens', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...events), { maxLength: 40 }), (happened) => {
        let state: JobState = 'preparing'
        for (const event of happened) {
          const after = next(state, event)
          if (isTerminal(state)) expect(after).toBeNull()
          state = after ?? state
        }
      }),
    )
  })

  it('lets every state reach an end', () => {
    const reaches = (state: JobState, seen: readonly JobState[] = []): boolean =>
      isTerminal(state) ||
      events.some((event) => {
        const after = next(state, event)
        return after !== null && !seen.includes(after) && reaches(after, [...seen, state])
      })
    for (const state of jobStates) expect(reaches(state)).toBe(true)
  })

  it('is the table that the database refuses by', async () => {
    const migration = await readFile(new URL('../../../../../migrations/0005_processing.sql', import.meta.url), 'utf8')
    const body =
      /FUNCTION processing\.refuse_illegal_move[\s\S]*?NOT \(OLD\.state, NEW\.state\) IN \(([\s\S]*?)\) THEN/.exec(
        migration,
      )?.[1] ?? ''
    const allowed = [...body.matchAll(/\('(\w+)', '(\w+)'\)/g)].map(([, from, to]) => `${from} ${to}`)
    const told = jobStates.flatMap((state) =>
      [...new Set(Object.values(moves[state]))].filter((to) => to !== state).map((to) => `${state} ${to}`),
    )
    expect(allowed.sort()).toEqual(told.sort())
  })
})
