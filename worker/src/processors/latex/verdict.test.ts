import { describe, expect, it } from 'vitest'
import type { Diagnostic } from '../../protocol/index.ts'
import { decideVerdict, type Evidence } from './verdict.ts'

const error = (message: string): Diagnostic => ({
  severity: 'error',
  file: 'main.tex',
  line: 3,
  message,
  context: null,
  hint: null,
})
const warning: Diagnostic = { ...error('x'), severity: 'warning' }
const whole: Evidence = { onError: 'fail', hasPdf: true, limit: null, diagnostics: [] }

describe('what becomes of a run', () => {
  const table: readonly (readonly [what: string, evidence: Partial<Evidence>, verdict: object])[] = [
    ['a document', {}, { kind: 'completed' }],
    ['a document with warnings', { diagnostics: [warning] }, { kind: 'completed' }],
    [
      'a document with errors',
      { diagnostics: [error('Undefined control sequence.')] },
      { failureClass: 'processor_rejected', message: 'main.tex:3: Undefined control sequence.' },
    ],
    [
      'a document with errors that was asked for',
      { onError: 'publish', diagnostics: [error('x')] },
      { kind: 'completed' },
    ],
    [
      'no document, asked for with errors',
      { onError: 'publish', hasPdf: false, diagnostics: [error('x')] },
      { failureClass: 'processor_rejected' },
    ],
    [
      'no document and no reason',
      { hasPdf: false },
      { failureClass: 'processor_rejected', message: expect.stringContaining('log') },
    ],
    [
      'a package that is missing',
      { hasPdf: false, diagnostics: [error("LaTeX Error: File `quux.sty' not found.")] },
      { failureClass: 'unsupported_dependency' },
    ],
    [
      'a chapter that is missing',
      { hasPdf: false, diagnostics: [error("LaTeX Error: File `one.tex' not found.")] },
      { failureClass: 'processor_rejected' },
    ],
    [
      'a font that is missing',
      { hasPdf: false, diagnostics: [error('Package fontspec Error: The font "Nope" cannot be found.')] },
      { failureClass: 'unsupported_dependency' },
    ],
    [
      'a limit, whatever is there',
      { onError: 'publish', limit: { name: 'wall_seconds', value: 5 } },
      { failureClass: 'resource_limit', message: 'The build reached its limit of 5 seconds of time and was stopped.' },
    ],
  ]
  it.each(table)('for %s', (_what, evidence, verdict) =>
    expect(decideVerdict({ ...whole, ...evidence })).toMatchObject(verdict),
  )
})
