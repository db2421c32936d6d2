import { describe, expect, it } from 'vitest'
import { parseByteRange } from './byte-range.ts'

describe('a range request on 1000 bytes', () => {
  const table: readonly (readonly [header: string | undefined, range: unknown])[] = [
    [undefined, 'whole'],
    ['bytes=0-499', { start: 0, end: 500 }],
    ['bytes=500-', { start: 500, end: 1000 }],
    ['bytes=-200', { start: 800, end: 1000 }],
    ['bytes=-2000', { start: 0, end: 1000 }],
    ['bytes=990-5000', { start: 990, end: 1000 }],
    ['bytes=0-0', { start: 0, end: 1 }],
    ['bytes=1000-', 'unsatisfiable'],
    ['bytes=-0', 'unsatisfiable'],
    ['bytes=5-2', 'whole'],
    ['bytes=0-1,5-9', 'whole'],
    ['bytes=-', 'whole'],
    ['lines=0-1', 'whole'],
    ['bytes=a-b', 'whole'],
  ]
  for (const [header, range] of table) {
    it(`gives ${JSON.stringify(range)} for ${header}`, () => expect(parseByteRange(header, 1000)).toEqual(range))
  }
})
