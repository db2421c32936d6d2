import { posix } from 'node:path'
import { type LatexEngine, latexEngines } from '../../protocol/index.ts'

/** Reads the head of a file of the project, decoded lossily; null if there is no such file. */
export type ReadHead = (path: string) => string | null

export interface EntryRequest {
  /** All paths of the project. */
  readonly paths: readonly string[]
  readonly readHead: ReadHead
  /** From the command, then from the project's settings. */
  readonly entryPath: string | null
  /** From the command. */
  readonly engine: LatexEngine | null
  /** From the project's settings. */
  readonly projectEngine: LatexEngine | null
}

export interface Entry {
  readonly path: string
  readonly engine: LatexEngine
  /** What was decided for the author and may surprise. */
  readonly notes: readonly string[]
}

const defaultEngine: LatexEngine = 'pdflatex'
const longestRootChain = 8

/**
 * Which file to build and by which engine: what the command says, else the document's `% !TEX` comments, else the
 * project's settings.
 *
 * @returns the decision, or a sentence that says what is missing
 */
export function decideEntry(request: EntryRequest): Entry | { readonly problem: string } {
  const asked = request.entryPath
  const found = asked === null ? detectEntry(request.paths, request.readHead) : { path: asked, notes: [] }
  if ('problem' in found) return found
  if (!request.paths.includes(found.path)) return { problem: `The project has no file "${found.path}" to start from.` }
  const followed = followRoot(found.path, request)
  const notes = [...found.notes, ...followed.notes]
  const name = posix.basename(followed.path)
  if (/^-|["$`\\|~]/.test(name)) {
    return {
      problem: `TeX cannot start from a file named "${name}". Rename it without a leading "-" and without " $ \` \\ | ~.`,
    }
  }
  const program = magicComment(request.readHead(followed.path) ?? '', 'program') ?? followed.program
  const chosen = engineOf(program)
  if (program !== null && chosen === null)
    notes.push(`"% !TEX program = ${program}" names no engine of this deployment and was ignored.`)
  return { path: followed.path, engine: request.engine ?? chosen ?? request.projectEngine ?? defaultEngine, notes }
}

/** The value of a `% !TEX key = value` comment, as editors write it: any case, `TS-` before the key or not. */
export function magicComment(head: string, key: 'program' | 'root'): string | null {
  const pattern = new RegExp(
    String.raw`^\uFEFF?[ \t]*%+[ \t]*!T[eE][xX][ \t]+(?:TS-)?${key}[ \t]*=[ \t]*(.+?)[ \t]*\r?$`,
    'im',
  )
  return pattern.exec(head)?.[1] ?? null
}

function engineOf(program: string | null): LatexEngine | null {
  const name = program?.toLowerCase().replace(/^pdf$|^latex$|^pdftex$/, 'pdflatex') ?? ''
  return latexEngines.find((engine) => engine === name) ?? null
}

/** Editors submit the open file; its comment names the one to build. */
function followRoot(
  start: string,
  { paths, readHead }: EntryRequest,
): { path: string; program: string | null; notes: string[] } {
  const seen = new Set([start])
  let path = start
  let program = magicComment(readHead(start) ?? '', 'program')
  for (let step = 0; step < longestRootChain; step += 1) {
    const head = readHead(path) ?? ''
    program = magicComment(head, 'program') ?? program
    const root = magicComment(head, 'root')
    if (root === null) break
    const next = [root, `${root}.tex`]
      .map((name) => posix.join(posix.dirname(path), name))
      .find((name) => paths.includes(name))
    if (next === undefined)
      return {
        path,
        program,
        notes: [`"% !TEX root = ${root}" in ${path} leads to no file of the project and was ignored.`],
      }
    if (seen.has(next)) break
    seen.add(next)
    path = next
  }
  return { path, program, notes: [] }
}

const usualNames = [
  'main',
  'thesis',
  'dissertation',
  'paper',
  'article',
  'report',
  'book',
  'slides',
  'presentation',
  'document',
  'ms',
  'manuscript',
  'cv',
  'letter',
]

function detectEntry(
  paths: readonly string[],
  readHead: ReadHead,
): { path: string; notes: string[] } | { problem: string } {
  const sources = paths.filter((path) => /\.(tex|ltx|latex)$/i.test(path))
  const documents = sources.filter((path) => startsDocument(readHead(path) ?? ''))
  if (documents.length === 0) {
    const problem =
      sources.length === 0
        ? 'The project has no .tex file.'
        : 'No file of the project has a \\documentclass, so there is nothing to start from. Name the entry, or add one.'
    return { problem }
  }
  const [path = '', ...others] = documents.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
  const rivals = others.filter((other) => Math.floor(rank(other) / 100) === Math.floor(rank(path) / 100))
  const notes =
    rivals.length > 0 && rank(path) % 100 !== 0
      ? [`Started from ${path}; ${rivals.slice(0, 3).join(', ')} could be built too. Name the entry to choose.`]
      : []
  return { path, notes }
}

/** Shallow before deep, then usual names in their order. */
function rank(path: string): number {
  const depth = path.split('/').length - 1
  const stem = posix
    .basename(path)
    .replace(/\.[^.]+$/, '')
    .toLowerCase()
  const place = usualNames.indexOf(stem)
  return depth * 100 + (place === -1 ? usualNames.length : place)
}

/** Whether a text begins a document of its own; a part that borrows another's preamble does not. */
export function startsDocument(text: string): boolean {
  const match = /^[^%\n]*\\document(?:class|style)\b\s*(?:\[[^\]]*\])?\s*\{([^}]*)\}/m.exec(text)
  return match !== null && !/^\s*subfiles\s*$/.test(match[1] ?? '')
}
