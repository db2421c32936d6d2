import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { resultFileName, resultRoles } from './operations.ts'

const pdf = resultRoles['latex.compile.pdf/v1'].pdf as NonNullable<(typeof resultRoles)['latex.compile.pdf/v1']['pdf']>

describe('names of result files', () => {
  const table: readonly (readonly [project: string, file: string])[] = [
    ['Thesis', 'Thesis.pdf'],
    ['Übersicht 2026', 'Übersicht 2026.pdf'],
    ['../../etc/passwd', 'etc-passwd.pdf'],
    ['a/b\\c:d', 'a-b-c-d.pdf'],
    ['...', 'document.pdf'],
    ['name\r\nSet-Cookie: x', 'name--Set-Cookie- x.pdf'],
  ]
  for (const [project, file] of table) {
    it(`calls the PDF of ${JSON.stringify(project)} ${file}`, () => expect(resultFileName(project, pdf)).toBe(file))
  }

  it('never holds a separator or a control character', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        (name) => void expect(resultFileName(name, pdf)).not.toMatch(/[/\\\p{Cc}]/u),
      ),
    )
  })
})
