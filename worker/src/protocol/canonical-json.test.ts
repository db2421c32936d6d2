import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalJson } from './canonical-json.ts'

const wellFormed = fc.string({ unit: 'binary' })
const json = fc.jsonValue({ stringUnit: 'binary' })

test('prints the example of RFC 8785 section 3.2.3 as the RFC does', () => {
  const value = JSON.parse(
    String.raw`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
  )
  expect(canonicalJson(value)).toBe(
    String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
  )
})

test('sorts names by UTF-16 code units, as in RFC 8785 section 3.2.3', () => {
  const value = { '\u20ac': 1, '\r': 2, '\ufb33': 3, '1': 4, '\u{1f600}': 5, '\u0080': 6, '\u00f6': 7 }
  const names = [...canonicalJson(value).matchAll(/"(?:[^"\\]|\\.)+":/g)].map(([name]) => JSON.parse(name.slice(0, -1)))
  expect(names).toEqual(['\r', '1', '\u0080', '\u00f6', '\u20ac', '\u{1f600}', '\ufb33'])
})

test('means the same JSON value', () => {
  fc.assert(
    fc.property(json, (value) => {
      expect(JSON.parse(canonicalJson(value))).toEqual(JSON.parse(JSON.stringify(value)))
    }),
  )
})

test('does not depend on the order in which names were set', () => {
  const members = fc.uniqueArray(fc.tuple(wellFormed, fc.integer()), { selector: ([name]) => name })
  fc.assert(
    fc.property(members, (entries) => {
      const forwards = canonicalJson(Object.fromEntries(entries))
      expect(canonicalJson(Object.fromEntries(entries.toReversed()))).toBe(forwards)
    }),
  )
})

test('is a fixed point: canonical text read and printed again is itself', () => {
  fc.assert(
    fc.property(json, (value) => {
      const once = canonicalJson(value)
      expect(canonicalJson(JSON.parse(once))).toBe(once)
    }),
  )
})

test.each([
  ['a lone surrogate', '\ud800'],
  ['a lone surrogate as a name', { '\udfff': 1 }],
  ['NaN', [Number.NaN]],
  ['undefined', { a: undefined }],
  ['a hole', new Array(1)],
  ['a bigint', 1n],
])('refuses %s', (_name, value) => {
  expect(() => canonicalJson(value)).toThrow(TypeError)
})

test('refuses a cycle', () => {
  const value: unknown[] = []
  value.push({ value })
  expect(() => canonicalJson(value)).toThrow('cycl')
})
