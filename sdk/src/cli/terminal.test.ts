import { describe, expect, it } from 'vitest'
import type { Diagnostic, Job } from '../types.ts'
import { diagnosticLine, printable, progressWords } from './terminal.ts'

const diagnostic: Diagnostic = { severity: 'ERROR', file: 'a.tex', line: 3, message: 'Oops', context: null, hint: null }

describe('what a terminal is sent', () => {
  it('cannot steer it', () => {
    expect(printable('\u001b[31mred\u0007\u202e\r')).toBe('\ufffd[31mred\ufffd\ufffd\ufffd')
    expect(printable('ü 😀\n\tplain')).toBe('ü 😀\n\tplain')
  })

  it('has findings as compilers print them', () => {
    expect(diagnosticLine(diagnostic)).toBe('a.tex:3: Oops')
    expect(diagnosticLine({ ...diagnostic, line: null, severity: 'WARNING' })).toBe('a.tex: warning: Oops')
    expect(diagnosticLine({ ...diagnostic, file: null, line: null, message: 'two\nlines' })).toBe('two lines')
  })

  it('has the phase, the reason of a wait and the attempt in words, also of a newer server', () => {
    const job = {
      phase: 'WAITING_FOR_WORKER',
      state: 'QUEUED',
      waitingReason: 'NO_WORKER',
      attempt: 2,
      cancelRequested: false,
    } as Job
    expect(progressWords(job)).toBe('waiting for a worker: no worker serves this operation now (attempt 2)')
    expect(progressWords({ ...job, phase: 'NEW' as never, waitingReason: null, attempt: 1 })).toBe('new')
  })
})
