import type { Severity } from '../../protocol/index.ts'
import type { ProjectFiles } from './project-files.ts'

const contextLines = 14

/** A finding of the log before hints are added. */
export interface LogEntry {
  readonly severity: Severity
  readonly file: string | null
  readonly line: number | null
  readonly message: string
  readonly context: string | null
  /** Base name of the package or class file that TeX named, when the finding was raised inside of one. */
  readonly raisedIn: string | null
}

/**
 * Reads the log of a TeX run that printed unwrapped lines and `file:line:` errors. What TeX says of a place is
 * trusted; its brackets serve only where it says nothing, since authors print brackets too.
 */
export function parseLog(log: string, files: ProjectFiles): LogEntry[] {
  const lines = log.split(/\r?\n/)
  const entries: LogEntry[] = []
  const stack = new FileStack(files)
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index] ?? ''
    const error = errorAt(lines, index, files, stack.current)
    if (error) {
      entries.push(...error.entries)
      index = error.last
      continue
    }
    const warning = warningAt(lines, index, stack.current)
    if (warning) {
      entries.push(warning.entry)
      index = warning.last
      continue
    }
    stack.read(line)
  }
  return entries
}

interface Found {
  readonly entries: readonly LogEntry[]
  readonly last: number
}

const located = /^(.+?):(\d+): (.*)$/

function errorAt(lines: readonly string[], index: number, files: ProjectFiles, current: string | null): Found | null {
  const line = lines[index] ?? ''
  const place = located.exec(line)
  const isPlace = place !== null && isSource(place[1] ?? '', files)
  if (!isPlace && !/^! \S/.test(line)) return null
  const first = isPlace ? (place[3] ?? '') : line.slice(2)
  if (/^ ?==> Fatal error occurred/.test(first)) return { entries: [], last: index }
  const { message, last: lastOfMessage } = withContinuation(lines, index, first)
  const { context, last, inputLine, following } = contextFrom(lines, lastOfMessage, files)
  const name = isPlace ? (place[1] ?? '') : (following?.name ?? null)
  const file = name === null ? current : files.resolve(name)
  const given = isPlace ? Number(place[2]) : (following?.line ?? inputLine)
  const entry: LogEntry = {
    severity: 'error',
    file,
    line: file === null ? null : given,
    message: tidy(message),
    context,
    raisedIn: name !== null && file === null ? base(name) : null,
  }
  return { entries: [entry], last }
}

/** Whether a name before `:line:` is a file and not the author's own words. */
function isSource(name: string, files: ProjectFiles): boolean {
  return files.resolve(name) !== null || /^(\.{0,2}\/|\.\.?\/).*\.\w+$/.test(name) || /^\/usr\/\S*\.\w+$/.test(name)
}

/** Messages of packages go on in lines that begin with the package's name in brackets. */
function withContinuation(lines: readonly string[], index: number, first: string): { message: string; last: number } {
  const name = /(?:Package|Class|Module) (\S+) (?:Error|Warning|Info)/i.exec(first)?.[1]
  let message = first
  let last = index
  for (let next = index + 1; next < lines.length; next += 1) {
    const line = lines[next] ?? ''
    const more = /^\(([^)]+)\)\s+(.*)$/.exec(line)
    if (!more || (name !== undefined && more[1] !== name && more[1] !== 'Font')) break
    message += ` ${more[2]}`
    last = next
  }
  return { message, last }
}

interface Context {
  readonly context: string
  readonly last: number
  /** From TeX's `l.12 …`. */
  readonly inputLine: number | null
  /** The place of an emergency stop that belongs to this error. */
  readonly following: { readonly name: string; readonly line: number } | null
}

function contextFrom(lines: readonly string[], index: number, files: ProjectFiles): Context {
  const kept = [lines[index] ?? '']
  let inputLine: number | null = null
  let following: Context['following'] = null
  let last = index
  for (let next = index + 1; next < Math.min(lines.length, index + 40); next += 1) {
    const line = lines[next] ?? ''
    const place = located.exec(line)
    if (place && isSource(place[1] ?? '', files)) {
      if (!/^\s*(==> )?(Emergency stop|Fatal error occurred)/.test(place[3] ?? '')) break
      following = { name: place[1] ?? '', line: Number(place[2]) }
      last = next
      continue
    }
    if (/^! /.test(line)) {
      if (!/^! (Emergency stop| ==> Fatal error)/.test(line)) break
      last = next
      continue
    }
    if (following !== null) break
    const numbered = /^l\.(\d+)( |$)/.exec(line)
    if (kept.length < contextLines && line.trim() !== '') kept.push(line.slice(0, 300))
    if (numbered) {
      inputLine = Number(numbered[1])
      const rest = lines[next + 1] ?? ''
      if (rest.trim() !== '') kept.push(rest.slice(0, 300))
      last = next + 1
      // An emergency stop may still follow close behind.
      if (!lines.slice(next + 1, next + 12).some((later) => /Emergency stop/.test(later))) break
    }
    if (
      /^\s*$/.test(line) &&
      inputLine !== null &&
      !lines.slice(next, next + 10).some((later) => /Emergency stop/.test(later))
    )
      break
  }
  return { context: kept.join('\n').slice(0, 3000), last, inputLine, following }
}

function warningAt(
  lines: readonly string[],
  index: number,
  current: string | null,
): { entry: LogEntry; last: number } | null {
  const line = lines[index] ?? ''
  const plain = (severity: Severity, message: string, atLine: number | null = null) => ({
    entry: {
      severity,
      file: current,
      line: current === null ? null : atLine,
      message: tidy(message),
      context: null,
      raisedIn: null,
    },
    last: index,
  })
  const missing = /^Missing character: There is no (.+) in font (.+?)!?$/.exec(line)
  if (missing) return plain('warning', `Missing character: There is no ${missing[1]} in font ${missing[2]}!`)
  const box =
    /^(?:Over|Under)full \\[hv]box .*?(?:at lines? (\d+)|detected at line (\d+)|while \\output is active|$)/.exec(line)
  if (box) return plain('info', line, Number(box[1] ?? box[2]) || null)
  if (/^pdfTeX warning|^xdvipdfmx:warning|^warning {2}\(/.test(line)) return plain('warning', line)
  // LaTeX leaves a missing \\include out without a word of warning; its own by-products are no loss.
  const absent = /^No file (.+\.tex)\.$/.exec(line)
  if (absent) return plain('warning', `No file ${absent[1]}: it was left out of the document.`)
  const warning = /^(?:(LaTeX|Package|Class|Module|LuaTeX|luaotfload)\b)(?: \S+)*? (Warning|warning)\s*: (.*)$/.exec(
    line,
  )
  if (!warning) return null
  const { message, last } = withContinuation(lines, index, line)
  const atLine = Number(/on input line (\d+)\.?/.exec(message)?.[1]) || null
  const severity: Severity = /^LaTeX Font Warning/.test(line) ? 'info' : 'warning'
  return { entry: { ...plain(severity, message, atLine).entry }, last }
}

/** Which file TeX is in, from the brackets it prints around each. */
class FileStack {
  readonly #files: ProjectFiles
  readonly #open: (string | null)[] = []

  constructor(files: ProjectFiles) {
    this.#files = files
  }

  /** The innermost file of the project. */
  get current(): string | null {
    return this.#open.findLast((file) => file !== null) ?? null
  }

  read(line: string): void {
    for (let at = 0; at < line.length; at += 1) {
      const character = line[at]
      if (character === ')') this.#open.pop()
      if (character !== '(') continue
      const name = /^\(("[^"]+"|[^\s(){}[\]]+)/.exec(line.slice(at))?.[1]
      const whole = name && !name.startsWith('"') ? this.#spaced(line.slice(at + 1), name) : name
      this.#open.push(whole === undefined ? null : this.#files.resolve(whole))
      if (name !== undefined) at += (whole ?? name).length
    }
  }

  /** A name with blanks is printed without quotes by some engines: the longest reading that is a file wins. */
  #spaced(rest: string, name: string): string {
    if (this.#files.resolve(name) !== null) return name
    const words = rest.split(' ')
    for (let count = Math.min(words.length, 12); count > 1; count -= 1) {
      const candidate = words
        .slice(0, count)
        .join(' ')
        .replace(/[()].*$/, '')
      if (this.#files.resolve(candidate) !== null) return candidate
    }
    return name
  }
}

const tidy = (message: string): string =>
  message.replaceAll(/\s+/g, ' ').trim().slice(0, 1900) || 'TeX reported an error.'
const base = (name: string): string => name.replace(/^.*\//, '')

/** What the last pass says about the run as a whole. */
export interface RunFacts {
  /** Pages that TeX says it wrote; 0 for none. */
  readonly pages: number
  readonly unstable: boolean
  readonly exhausted: 'file_bytes' | 'memory_bytes' | null
  /** Names of .bib files that were asked for and not there, when there was no finished .bbl in their place either. */
  readonly missingBibliographies: readonly string[]
}

/** @param output what latexmk and the programs it started printed */
export function runFacts(log: string, output: string): RunFacts {
  const pages = Number(/Output written on .*? \((\d+) pages?/s.exec(log)?.[1] ?? 0)
  const unstable =
    /Maximum runs of \w*latex|'\w*latex[^']*' needed too many passes/.test(output) ||
    /Label\(s\) may have changed\. Rerun/.test(log)
  const said = `${log}\n${output}`
  const exhausted = /size limit exceeded|File too large/i.test(said)
    ? 'file_bytes'
    : /\(lua\): not enough memory|Out of memory!|virtual memory exhausted/.test(said)
      ? 'memory_bytes'
      : null
  const bibliography = /No file .+\.bbl\.|Empty bibliography/.test(log)
    ? (/Bib file\(s\) not found in search path:\n((?: {2}.+\n)+)/.exec(output)?.[1] ?? '')
    : ''
  const missingBibliographies = bibliography.split('\n').flatMap((line) => line.trim() || [])
  return { pages, unstable, exhausted, missingBibliographies }
}
