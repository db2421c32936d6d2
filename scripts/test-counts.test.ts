import { expect, test } from 'vitest'
import { countByProject, report } from './test-counts.ts'

const count = (project: string, passed: number, failed: number) => ({ project, passed, failed })

test('a skipped or unfinished test counts as a failure', () => {
  const file = { project: 'unit', broken: false, tests: ['passed', 'skipped', 'pending', 'failed'] as const }
  expect(countByProject(['unit'], [file])).toEqual([count('unit', 1, 3)])
})

test('a file that cannot be loaded counts as one failure, one with failed tests as those', () => {
  const files = [
    { project: 'unit', broken: true, tests: [] },
    { project: 'unit', broken: true, tests: ['failed', 'passed'] as const },
  ]
  expect(countByProject(['unit'], files)).toEqual([count('unit', 1, 2)])
})

test('the last line is what machines read', () => {
  const { text, ok } = report([count('unit', 3, 0), count('e2e', 2, 0)], false, 0)
  expect(text.split('\n').at(-1)).toBe('5 passed, 0 failed')
  expect(ok).toBe(true)
})

test('a project without tests fails the run, unless the run was narrowed', () => {
  const counts = [count('unit', 3, 0), count('e2e', 0, 0)]
  expect(report(counts, false, 0)).toMatchObject({ ok: false, text: expect.stringMatching(/3 passed, 1 failed$/) })
  expect(report(counts, true, 0)).toMatchObject({ ok: true, text: expect.stringMatching(/3 passed, 0 failed$/) })
})

test('an error outside any test fails the run', () => {
  expect(report([count('unit', 3, 0)], false, 1)).toMatchObject({
    ok: false,
    text: expect.stringMatching(/3 passed, 1 failed$/),
  })
})

test('a filter that matches nothing fails the run', () => {
  expect(report([count('unit', 0, 0)], true, 0)).toMatchObject({
    ok: false,
    text: 'No test matches.\n0 passed, 0 failed',
  })
})
