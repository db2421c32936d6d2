import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ancestors, normalizePath, pathKey } from './project-tree.ts'

const refused: readonly (readonly [path: string, code: string])[] = [
  ['', 'required'],
  ['/etc/passwd', 'unsafe_path'],
  ['../main.tex', 'unsafe_path'],
  ['a/../../b.tex', 'unsafe_path'],
  ['a/./b.tex', 'unsafe_path'],
  ['a//b.tex', 'unsafe_path'],
  ['a/', 'unsafe_path'],
  ['a\\b.tex', 'unsafe_path'],
  ['a\u0000b', 'unsafe_path'],
  ['a\nb', 'unsafe_path'],
  ['\ud800.tex', 'unsafe_path'],
  [`${'a/'.repeat(512)}b`, 'too_long'],
  ['aux', 'reserved_name'],
  ['chapters/NUL.tex', 'reserved_name'],
  ['com1.tex', 'reserved_name'],
  ['name.', 'reserved_name'],
  ['name /main.tex', 'reserved_name'],
]

describe('project paths', () => {
  for (const [path, code] of refused) {
    it(`refuses ${JSON.stringify(path.slice(0, 30))} as ${code}`, () => {
      expect(normalizePath(path)).toMatchObject({ issue: { code } })
    })
  }

  for (const path of [
    'main.tex',
    'kapitel/Übersicht 2.tex',
    'a b/c.tex',
    '.latexmkrc',
    '日本/語.tex',
    'auxiliary.tex',
  ]) {
    it(`takes ${path}`, () => expect(normalizePath(path)).toEqual({ path }))
  }

  it('stores decomposed names composed', () => {
    expect(normalizePath('u\u0308.tex')).toEqual({ path: '\u00fc.tex' })
  })

  it('gives names that differ only in case one key', () => {
    expect(pathKey('Straße.TEX')).toBe(pathKey('STRASSE.tex'))
    expect(pathKey('STRAẞE.tex')).toBe(pathKey('straße.tex'))
    expect(pathKey('a.tex')).not.toBe(pathKey('b.tex'))
  })

  it('gives a key that is its own key', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => void expect(pathKey(pathKey(text))).toBe(pathKey(text))),
    )
  })

  it('lists the folders above a path', () => {
    expect(ancestors('a/b/c.tex')).toEqual(['a', 'a/b'])
    expect(ancestors('c.tex')).toEqual([])
  })
})
