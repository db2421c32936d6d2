import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { newState, project, replaceText } from './document.ts'

const text = fc.string({ unit: 'grapheme', maxLength: 60 })

describe('document projection', () => {
  it('projects what was written', () => {
    fc.assert(fc.property(text, (value) => void expect(project(newState(value)).text).toBe(value)))
  })

  it('projects the last text written over any earlier one', () => {
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 6 }), (values) => {
        let state = newState('start')
        for (const value of values) state = replaceText(state, value)
        expect(project(state).text).toBe(values.at(-1))
      }),
    )
  })

  it('never cuts a surrogate pair when only half of it differs', () => {
    const state = replaceText(newState('a😀b'), 'a😁b')
    expect(project(state).text).toBe('a😁b')
  })

  it('counts bytes of UTF-8 and keeps a byte order mark and CRLF', () => {
    const projection = project(newState('\ufeffé\r\n'))
    expect(projection.text).toBe('\ufeffé\r\n')
    expect(projection.byteLength).toBe(7)
  })
})
