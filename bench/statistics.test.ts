import { expect, test } from 'vitest'
import { median, table } from './statistics.ts'

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

test('a table is Markdown with aligned columns', () => {
  expect(
    table([
      ['what', 'ms'],
      ['a', '1,234'],
    ]),
  ).toBe('| what | ms    |\n| ---- | ----- |\n| a    | 1,234 |')
})
