import type { LogEntry } from './log.ts'
import type { ProjectFiles } from './project-files.ts'

/** Reads a .blg, of BibTeX or of biber: their errors appear nowhere else. */
export function parseBibliographyLog(log: string, files: ProjectFiles): LogEntry[] {
  const lines = log.split(/\r?\n/)
  return /This is Biber/i.test(log) ? biber(lines, files) : bibtex(lines, files)
}

function biber(lines: readonly string[], files: ProjectFiles): LogEntry[] {
  return lines.flatMap((line) => {
    const match = /\b(ERROR|WARN) - (.*)$/.exec(line)
    if (!match) return []
    const message = match[2] ?? ''
    const place = /file '([^']+)'.*?line (\d+)/i.exec(message) ?? /^([^\s:]+\.bib)[:,] line (\d+)/i.exec(message)
    const file = place ? bibFile(place[1] ?? '', files) : null
    return [entry(match[1] === 'ERROR' ? 'error' : 'warning', message, file, file === null ? null : Number(place?.[2]))]
  })
}

function bibtex(lines: readonly string[], files: ProjectFiles): LogEntry[] {
  const entries: LogEntry[] = []
  for (const [index, line] of lines.entries()) {
    // A long message has its place on a line of its own.
    const place = /^(.*)---line (\d+) of file (.+)$/.exec(line)
    if (place) {
      const said = place[1] !== '' ? (place[1] ?? '') : (lines[index - 1] ?? '')
      const file = bibFile(place[3] ?? '', files)
      entries.push(entry('error', said, file, file === null ? null : Number(place[2])))
      continue
    }
    const warning = /^Warning--(.*)$/.exec(line)
    if (warning) {
      const next = /^--line (\d+) of file (.+)$/.exec(lines[index + 1] ?? '')
      const file = next ? bibFile(next[2] ?? '', files) : null
      entries.push(entry('warning', warning[1] ?? '', file, file === null ? null : Number(next?.[1])))
    }
  }
  return entries
}

function bibFile(name: string, files: ProjectFiles): string | null {
  return files.resolve(name) ?? files.resolve(`${name}.bib`)
}

const entry = (
  severity: LogEntry['severity'],
  message: string,
  file: string | null,
  line: number | null,
): LogEntry => ({
  severity,
  file,
  line,
  message: message.trim().slice(0, 1900) || 'The bibliography program reported an error.',
  context: null,
  raisedIn: null,
})
