import { describe, expect, it } from 'vitest'
import { parseBibliographyLog } from './bibliography-log.ts'
import { toDiagnostics } from './diagnostics.ts'
import { type LogEntry, parseLog, runFacts } from './log.ts'
import { ProjectFiles } from './project-files.ts'

const files = (directory = '.') =>
  new ProjectFiles(
    [
      'main.tex',
      'sections/inner.tex',
      'chapters/intro.tex',
      'refs.bib',
      'my notes.tex',
      'paper/main.tex',
      'common/x.tex',
    ],
    directory,
    '/job',
  )
const parse = (log: string, directory?: string) => parseLog(log, files(directory))

describe('the log of TeX', () => {
  it('gives file and line of an error, with what TeX showed of it', () => {
    const [entry, ...more] = parse(`(./main.tex (./sections/inner.tex :-) ) (
./sections/inner.tex:3: Undefined control sequence.
l.3 \\nosuch
            thing
The control sequence at the end of the top line
`)
    expect(more).toEqual([])
    expect(entry).toMatchObject({
      severity: 'error',
      file: 'sections/inner.tex',
      line: 3,
      message: 'Undefined control sequence.',
    })
    expect(entry?.context).toContain('l.3 \\nosuch')
  })

  it('joins an error without a place with the emergency stop that has one', () => {
    const log = `! LaTeX Error: File \`Chapters/Intro.tex' not found.

Type X to quit or <RETURN> to proceed,
or enter new name. (Default extension: tex)

Enter file name: 
./main.tex:3: Emergency stop.
<read *> 
         
l.3 \\input{Chapters/Intro}
                          ^^M
./main.tex:3:  ==> Fatal error occurred, no output PDF file produced!
`
    expect(parse(log)).toMatchObject([
      { severity: 'error', file: 'main.tex', line: 3, message: "LaTeX Error: File `Chapters/Intro.tex' not found." },
    ])
  })

  it('puts the lines of a package error together', () => {
    const log = `./main.tex:4: Package foo Error: First part
(foo)                second part.

See the foo package documentation for explanation.
l.4 \\bad
`
    expect(parse(log)).toMatchObject([{ message: 'Package foo Error: First part second part.', line: 4 }])
  })

  it('knows files from the folder of the entry, and those above it', () => {
    expect(parse('./main.tex:1: Oops.\n', 'paper')).toMatchObject([{ file: 'paper/main.tex' }])
    expect(parse('../common/x.tex:7: Oops.\n', 'paper')).toMatchObject([{ file: 'common/x.tex', line: 7 }])
    expect(parse('/job/common/x.tex:7: Oops.\n', 'paper')).toMatchObject([{ file: 'common/x.tex' }])
  })

  it('knows files with blanks in their names', () => {
    expect(parse('./my notes.tex:2: Oops.\n')).toMatchObject([{ file: 'my notes.tex', line: 2 }])
    expect(
      parse("(./main.tex (./my notes.tex\nLaTeX Warning: Reference `x' on page 1 undefined on input line 9.\n"),
    ).toMatchObject([{ file: 'my notes.tex', line: 9 }])
  })

  it('does not take the words of an author for a place', () => {
    expect(parse('At noon:12: nothing happened\nSee chapter:3: it says so\n')).toEqual([])
  })

  it('names the package file that an error was raised in when it is not of the project', () => {
    expect(
      parse('/usr/share/texlive/texmf-dist/tex/latex/fontspec/fontspec.sty:45: Fatal Package fontspec Error: No.\n'),
    ).toMatchObject([{ file: null, raisedIn: 'fontspec.sty' }])
  })

  const warnings: readonly (readonly [line: string, expected: Partial<LogEntry>])[] = [
    ["LaTeX Warning: Citation `x' on page 1 undefined on input line 5.", { severity: 'warning', line: 5 }],
    [
      'Missing character: There is no ä in font cmr10!',
      { severity: 'warning', message: 'Missing character: There is no ä in font cmr10!' },
    ],
    ['Overfull \\hbox (12.3pt too wide) in paragraph at lines 4--5', { severity: 'info', line: 4 }],
    ['Package hyperref Warning: Token not allowed on input line 8.', { severity: 'warning', line: 8 }],
    ['LaTeX Font Warning: Some font shapes were not available, defaults substituted.', { severity: 'info' }],
  ]
  it.each(warnings)('reads %s', (line, expected) => {
    expect(parse(`(./main.tex\n${line}\n`)).toMatchObject([{ file: 'main.tex', ...expected }])
  })

  it('counts pages, and says what did not settle or ran out', () => {
    expect(runFacts('Output written on main.pdf (12 pages, 3 bytes).', '')).toMatchObject({
      pages: 12,
      unstable: false,
      exhausted: null,
    })
    expect(
      runFacts(
        'Output written on my report.xdv (1 page, 3 bytes).',
        'Latexmk: Maximum runs of pdflatex reached without getting stable files',
      ),
    ).toMatchObject({ pages: 1, unstable: true })
    expect(runFacts('No pages of output.', '')).toMatchObject({ pages: 0 })
    expect(runFacts('', 'File size limit exceeded')).toMatchObject({ exhausted: 'file_bytes' })
  })

  it('names bibliographies that are missing, but not when their result was shipped', () => {
    const output =
      "Bib file(s) not found in search path:\n  gone.bib\n  other one.bib\nLatexmk: applying rule 'bibtex main'...\n"
    expect(runFacts('No file main.bbl.', output).missingBibliographies).toEqual(['gone.bib', 'other one.bib'])
    expect(runFacts('(./main.bbl)', output).missingBibliographies).toEqual([])
  })

  it('does not call a document unsettled because its bibliography could not be made', () => {
    expect(runFacts('', "'biber main' needed too many passes")).toMatchObject({ unstable: false })
  })

  it('tells of a chapter that \\include did not find', () => {
    expect(parse('(./main.tex\nNo file gone.tex.\nNo file main.toc.\n')).toMatchObject([
      { severity: 'warning', message: expect.stringContaining('gone.tex') },
    ])
  })

  it('survives any text', () => {
    for (const text of [
      '(',
      ')))',
      '! ',
      ':1:',
      './main.tex:0: x',
      'l.',
      '\u0000'.repeat(100),
      `${'('.repeat(5000)}\n`,
    ])
      expect(() => parse(text)).not.toThrow()
  })
})

describe('the log of a bibliography program', () => {
  it('gives what BibTeX says, with the place of a long message from the next line', () => {
    const log = `This is BibTeX, Version 0.99d
I couldn't open database file gone.bib
---line 3 of file main.aux
Warning--I didn't find a database entry for "nobody"
I was expecting a \`,' or a \`}'---line 7 of file refs.bib
`
    expect(parseBibliographyLog(log, files())).toMatchObject([
      { severity: 'error', message: "I couldn't open database file gone.bib", file: null },
      { severity: 'warning', message: 'I didn\'t find a database entry for "nobody"' },
      { severity: 'error', message: "I was expecting a `,' or a `}'", file: 'refs.bib', line: 7 },
    ])
  })

  it('gives what biber says', () => {
    const log = `[0] Config.pm:307> INFO - This is Biber 2.18
[103] Utils.pm:410> WARN - I didn't find a database entry for 'x' (section 0)
[105] Utils.pm:410> ERROR - Cannot find 'gone.bib'!
`
    expect(parseBibliographyLog(log, files())).toMatchObject([
      { severity: 'warning' },
      { severity: 'error', message: "Cannot find 'gone.bib'!" },
    ])
  })
})

describe('what people are told', () => {
  const tell = (entries: readonly LogEntry[], more: Partial<Parameters<typeof toDiagnostics>[0]> = {}) =>
    toDiagnostics({
      entries,
      facts: { pages: 1, unstable: false, exhausted: null, missingBibliographies: [] },
      notes: [],
      files: files(),
      entryPath: 'main.tex',
      readLines: (path) =>
        path === 'main.tex'
          ? ['\\documentclass{article}', '\\usepackage{quux}', '% \\usepackage{later}', '\\input{Chapters/Intro}']
          : [],
      hasPdf: true,
      ...more,
    })
  const error = (message: string, more: Partial<LogEntry> = {}): LogEntry => ({
    severity: 'error',
    file: null,
    line: null,
    message,
    context: null,
    raisedIn: null,
    ...more,
  })

  it('has the line of a \\usepackage, not the one after it', () => {
    expect(tell([error("LaTeX Error: File `quux.sty' not found.", { file: 'main.tex', line: 3 })])).toMatchObject([
      { file: 'main.tex', line: 2 },
    ])
  })

  it('has the place in the document of what was raised inside a package', () => {
    expect(tell([error('Fatal Package quux Error: No.', { raisedIn: 'quux.sty' })])).toMatchObject([
      { file: 'main.tex', line: 2 },
    ])
  })

  it('names the file that differs only in case', () => {
    expect(
      tell([error("LaTeX Error: File `Chapters/Intro.tex' not found.", { file: 'main.tex', line: 4 })]),
    ).toMatchObject([{ hint: expect.stringContaining('"chapters/intro.tex"') }])
  })

  it('has the worst first, each thing once, and nothing of the parser', () => {
    const told = tell([{ ...error('late'), severity: 'warning' }, error('x'), error('x')], {
      facts: { pages: 1, unstable: true, exhausted: null, missingBibliographies: [] },
      notes: ['a note'],
    })
    expect(told.map(({ severity }) => severity)).toEqual(['error', 'warning', 'warning', 'info'])
    expect(Object.keys(told[0] ?? {}).sort()).toEqual(['context', 'file', 'hint', 'line', 'message', 'severity'])
  })

  it('says so when there are no pages and TeX gave no reason', () => {
    expect(tell([], { hasPdf: false })).toMatchObject([
      { severity: 'error', message: expect.stringContaining('No pages') },
    ])
  })
})
