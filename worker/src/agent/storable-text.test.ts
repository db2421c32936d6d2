import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { diagnostic } from '../protocol/index.ts'
import { storableDiagnostics, storableText } from './storable-text.ts'

describe('text for Core', () => {
  it('has no NUL and no half characters, also where it is cut', () => {
    expect(storableText('a\u0000b', 10)).toBe('a\ufffdb')
    expect(storableText('ab😀', 3)).toBe('ab\ufffd')
    expect(storableText('Übersicht 😀', 100)).toBe('Übersicht 😀')
  })

  it('is always a finding of the protocol, whatever a document made of it', () => {
    const words = fc.string({ unit: 'binary', maxLength: 5000 })
    const finding = fc.record({
      severity: fc.constantFrom('error' as const, 'warning' as const, 'info' as const),
      file: fc.option(words),
      line: fc.option(fc.integer({ min: -5, max: 1e6 })),
      message: words,
      context: fc.option(words),
      hint: fc.option(words),
    })
    fc.assert(
      fc.property(finding, (given) => {
        const [sound] = storableDiagnostics([given])
        expect(diagnostic.safeParse(sound).success).toBe(true)
      }),
    )
  })
})
