import { describe, expect, it } from 'vitest'
import { decideEntry, magicComment, startsDocument } from './entry.ts'

const documentText = '\\documentclass{article}\\begin{document}x\\end{document}'

function decide(files: Record<string, string>, more: Partial<Parameters<typeof decideEntry>[0]> = {}) {
  return decideEntry({
    paths: Object.keys(files),
    readHead: (path) => files[path] ?? null,
    entryPath: null,
    engine: null,
    projectEngine: null,
    ...more,
  })
}

describe('the entry of a project', () => {
  it('is the only file with a \\documentclass, wherever its name', () => {
    expect(decide({ 'essay.tex': documentText, 'aside.tex': 'x', 'empty.tex': '' })).toMatchObject({
      path: 'essay.tex',
      notes: [],
    })
  })

  it('is main.tex among several, and a shallow file before a deep one', () => {
    expect(decide({ 'a.tex': documentText, 'main.tex': documentText })).toMatchObject({ path: 'main.tex' })
    expect(decide({ 'deep/main.tex': documentText, 'z.tex': documentText })).toMatchObject({ path: 'z.tex' })
  })

  it('is told when it was a choice', () => {
    expect(decide({ 'a.tex': documentText, 'b.tex': documentText })).toMatchObject({
      path: 'a.tex',
      notes: [expect.stringContaining('b.tex')],
    })
  })

  it('is not a part that borrows a preamble, nor a comment', () => {
    expect(startsDocument('\\documentclass[../main]{subfiles}')).toBe(false)
    expect(startsDocument('% \\documentclass{article}')).toBe(false)
    expect(startsDocument('\ufeff\\documentclass[a4paper,\n 12pt]{article}')).toBe(true)
    expect(startsDocument('\\RequirePackage{x}\r\n  \\documentclass {book}')).toBe(true)
  })

  it('is missing, in words', () => {
    expect(decide({ 'a.tex': 'x' })).toMatchObject({ problem: expect.stringContaining('\\documentclass') })
    expect(decide({ 'a.txt': 'x' })).toMatchObject({ problem: 'The project has no .tex file.' })
    expect(decide({ 'a.tex': documentText }, { entryPath: 'b.tex' })).toMatchObject({
      problem: expect.stringContaining('"b.tex"'),
    })
  })

  it.each(['-x.tex', '$x.tex', 'a"b.tex', 'a`b.tex', 'a|b.tex'])(
    'is never %s, which a shell or TeX would take for something else',
    (path) => {
      expect(decide({ [path]: documentText })).toMatchObject({ problem: expect.stringContaining('Rename it') })
    },
  )

  it.each(['my report.tex', 'Übersicht #2 & 50%.tex', "it's.tex"])('may be %s', (path) => {
    expect(decide({ [path]: documentText })).toMatchObject({ path })
  })
})

describe('magic comments', () => {
  it.each([
    ['% !TEX program = xelatex', 'xelatex'],
    ['%!TeX TS-program = lualatex', 'lualatex'],
    ['% !tex Program=pdflatex  \r', 'pdflatex'],
    ['\ufeff% !TEX program = xelatex', 'xelatex'],
    ['text\n%% !TEX program = xelatex', 'xelatex'],
    ['% !TEX root = x', null],
    ['!TEX program = xelatex', null],
  ])('reads %j', (head, program) => expect(magicComment(head, 'program')).toBe(program))

  it('lead from a chapter to its root, through folders and without the extension', () => {
    const files = {
      'chapters/two.tex': '% !TeX root = ../book',
      'book.tex': `% !TEX program = lualatex\n${documentText}`,
    }
    expect(decide(files, { entryPath: 'chapters/two.tex' })).toMatchObject({ path: 'book.tex', engine: 'lualatex' })
  })

  it('that lead nowhere or in a circle are left, and told', () => {
    expect(decide({ 'a.tex': `% !TEX root = gone.tex\n${documentText}` })).toMatchObject({
      path: 'a.tex',
      notes: [expect.stringContaining('gone.tex')],
    })
    const circle = { 'a.tex': '% !TEX root = b.tex', 'b.tex': '% !TEX root = a.tex' }
    expect(decide(circle, { entryPath: 'a.tex' })).toMatchObject({ path: 'b.tex' })
  })

  it('never lead out of the project', () => {
    expect(decide({ 'a.tex': `% !TEX root = ../../etc/passwd\n${documentText}` })).toMatchObject({ path: 'a.tex' })
  })
})

describe('the engine', () => {
  const files = { 'main.tex': `% !TEX program = xelatex\n${documentText}` }
  it('is that of the command, else of the document, else of the project, else pdfLaTeX', () => {
    expect(decide(files, { engine: 'lualatex', projectEngine: 'pdflatex' })).toMatchObject({ engine: 'lualatex' })
    expect(decide(files, { projectEngine: 'pdflatex' })).toMatchObject({ engine: 'xelatex' })
    expect(decide({ 'main.tex': documentText }, { projectEngine: 'lualatex' })).toMatchObject({ engine: 'lualatex' })
    expect(decide({ 'main.tex': documentText })).toMatchObject({ engine: 'pdflatex' })
  })

  it('that nobody has is told and not obeyed', () => {
    expect(decide({ 'main.tex': `% !TEX program = context\n${documentText}` })).toMatchObject({
      engine: 'pdflatex',
      notes: [expect.stringContaining('context')],
    })
  })
})
