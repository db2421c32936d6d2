import type { Diagnostic } from '../../protocol/index.ts'
import { hintFor, missingFile } from './hints.ts'
import type { LogEntry, RunFacts } from './log.ts'
import type { ProjectFiles } from './project-files.ts'

const mostDiagnostics = 200

export interface Findings {
  readonly entries: readonly LogEntry[]
  readonly facts: RunFacts
  readonly notes: readonly string[]
  readonly files: ProjectFiles
  readonly entryPath: string
  /** Lines of a file of the project, to find what TeX names no line for. */
  readonly readLines: (path: string) => readonly string[]
  /** Whether there is a document at all. */
  readonly hasPdf: boolean
}

/** What people are told: the worst first, each thing once. */
export function toDiagnostics(findings: Findings): Diagnostic[] {
  const { entries, facts, files, notes, hasPdf } = findings
  const all: Diagnostic[] = entries.map((entry) => ({
    severity: entry.severity,
    ...placeOf(entry, findings),
    message: entry.message,
    context: entry.context,
    hint: hintFor(entry, files),
  }))
  for (const name of facts.missingBibliographies) {
    const hint = 'Add the file to the project, or the finished .bbl in its place.'
    all.push(
      general('warning', `The bibliography file ${name} is not in the project, so its entries are missing.`, hint),
    )
  }
  if (facts.unstable && hasPdf) {
    all.push(
      general(
        'warning',
        'The document did not stabilise: another pass would still change page numbers or references.',
        'Something moves from pass to pass, often a float or a note near the end of a page. Reword around it.',
      ),
    )
  }
  if (!hasPdf && !all.some((diagnostic) => diagnostic.severity === 'error')) {
    all.push(
      general(
        'error',
        'No pages of output: the document typesets nothing.',
        'Write some text between \\begin{document} and \\end{document}.',
      ),
    )
  }
  all.push(...notes.map((note) => general('info', note, null)))
  const rank = { error: 0, warning: 1, info: 2 }
  return once(all)
    .sort((a, b) => rank[a.severity] - rank[b.severity])
    .slice(0, mostDiagnostics)
}

const general = (severity: Diagnostic['severity'], message: string, hint: string | null): Diagnostic => ({
  severity,
  file: null,
  line: null,
  message,
  context: null,
  hint,
})

/** TeX reports a file that is missing one line late or not at all; what was raised inside a package has its place in the document. */
function placeOf(
  entry: LogEntry,
  { entryPath, readLines, files }: Findings,
): { file: string | null; line: number | null } {
  const wanted = missingFile(entry.message)
  const stem = (wanted ?? entry.raisedIn)?.replace(/\.(sty|cls|def|ldf)$/i, '') ?? null
  const given = { file: entry.file, line: entry.line }
  if (stem === null || entry.severity !== 'error') return given
  const named = new RegExp(String.raw`^[^%]*\\\w+[^%]*[{,"\s/]\s*${RegExp.escape(stem)}\s*[},"\s.]`)
  const candidates = [entry.file, entryPath, ...[...files.paths].filter((path) => /\.(tex|sty|cls|ltx)$/i.test(path))]
  for (const path of new Set(candidates)) {
    if (path === null) continue
    const upTo = path === entry.file && entry.line !== null ? entry.line : undefined
    const index = readLines(path)
      .slice(0, upTo)
      .findLastIndex((line) => named.test(line))
    if (index !== -1) return { file: path, line: index + 1 }
  }
  return given
}

function once(diagnostics: readonly Diagnostic[]): Diagnostic[] {
  const seen = new Set<string>()
  return diagnostics.filter(({ severity, file, line, message }) => {
    const key = JSON.stringify([severity, file, line, message])
    return !seen.has(key) && seen.add(key)
  })
}
