import type { Diagnostic } from '../protocol/index.ts'

/** Text that Core can keep, at most `length` UTF-16 code units: what no database stores is shown as a replacement character. */
export const storableText = (text: string, length: number): string =>
  text.slice(0, length).replaceAll('\u0000', '\ufffd').toWellFormed()

const mostDiagnostics = 500

/** Findings as they go to Core, whatever a document or a processor put into them. */
export const storableDiagnostics = (diagnostics: readonly Diagnostic[]): Diagnostic[] =>
  diagnostics.slice(0, mostDiagnostics).map(({ severity, file, line, message, context, hint }) => ({
    severity,
    file: file && storableText(file, 1024),
    line: line !== null && line >= 1 ? line : null,
    message: storableText(message, 2000) || 'Something was found that has no words.',
    context: context && storableText(context, 4000),
    hint: hint && storableText(hint, 1000),
  }))
