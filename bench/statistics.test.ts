import { expect, test } from 'vitest'
import { median, quantile, table } from './statistics.ts'

test.each([
  [[3, 1, 2], 2],
  [[4, 1, 2, 3], 2.5],
  [[7], 7],
])('the median of %j is %d', (values, expected) => {
  expect(median(values)).toBe(expected)
})

test('nothing has no median', () => {
  expect(() => median([])).toThrow(RangeError)
})

test.each([
  [[3, 1, 2], 0.5, 2],
  [[4, 1, 2, 3], 0.99, 4],
  [[4, 1, 2, 3], 0.25, 1],
  [[7], 0.01, 7],
])('of %j the share %d is at most %d', (values, share, expected) => {
  expect(quantile(values, share)).toBe(expected)
})

test('a table is Markdown with aligned columns', () => {
  expect(
    table([
      ['what', 'ms'],
      ['a', '1,234'],
    ]),
  ).toBe('| what | ms    |\n| ---- | ----- |\n| a    | 1,234 |')
})
