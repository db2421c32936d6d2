import { cp, type FileHandle, mkdir, open, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { type Diagnostic, type LatexOptions, latexOptions } from '../../protocol/index.ts'
import type { Exit, Outcome, ResultFile, Task, Workspace } from '../../sdk/index.ts'
import { parseBibliographyLog } from './bibliography-log.ts'
import { toDiagnostics } from './diagnostics.ts'
import { decideEntry, type Entry } from './entry.ts'
import { invocation, outputPath, stalePaths } from './invocation.ts'
import { parseLog, runFacts } from './log.ts'
import { ProjectFiles } from './project-files.ts'
import { rewriteSynctex } from './synctex.ts'
import { decideVerdict } from './verdict.ts'

const headBytes = 64 * 1024
const parsedLogBytes = 16 * 1024 * 1024
const keptLogBytes = 8 * 1024 * 1024
const largestSource = 4 * 1024 * 1024

/** Builds one document. Rejects only when the attempt was aborted. */
export async function buildDocument(task: Task, fontCache: () => Promise<string | null>): Promise<Outcome> {
  const options = latexOptions.parse(task.options)
  const entry = await findEntry(task, options)
  if ('problem' in entry) {
    const diagnostic: Diagnostic = {
      severity: 'error',
      file: null,
      line: null,
      message: entry.problem,
      context: null,
      hint: null,
    }
    return {
      kind: 'failed',
      failureClass: 'invalid_input',
      message: entry.problem,
      limit: null,
      diagnostics: [diagnostic],
      results: [],
    }
  }
  await using workspace = await task.executor.open({ limits: task.limits, signal: task.signal })
  await cp(task.inputDirectory, workspace.hostProject, { recursive: true })
  for (const path of stalePaths(entry.path)) await rm(join(workspace.hostProject, path), { force: true })
  if (entry.engine === 'lualatex') await seed(workspace, await fontCache())

  const exit = await workspace.run(
    invocation({
      entry: entry.path,
      engine: entry.engine,
      onError: options.on_error,
      sourceEpoch: task.manifest.source_epoch,
      projectPath: workspace.projectPath,
      statePath: workspace.statePath,
    }),
  )
  if (exit.kind === 'aborted') throw task.signal.reason
  // Awaited here: the workspace goes when this function returns.
  return await judge(task, options, entry, workspace, exit)
}

async function findEntry(task: Task, options: LatexOptions): Promise<Entry | { problem: string }> {
  const paths = task.manifest.files.map((file) => file.path)
  const heads = new Map<string, string>()
  for (const path of paths) {
    if (/\.(tex|ltx|latex|rnw)$/i.test(path)) heads.set(path, await head(join(task.inputDirectory, path)))
  }
  const decided = decideEntry({
    paths,
    readHead: (path) => heads.get(path) ?? null,
    entryPath: options.entry_path ?? task.manifest.entry_path,
    engine: options.engine,
    projectEngine: task.manifest.settings.engine,
  })
  if ('problem' in decided) return decided
  const ignored = paths.filter((path) => /(^|\/)(\.?latexmkrc|LatexMk|texmf\.cnf)$/.test(path))
  return {
    ...decided,
    notes: [...decided.notes, ...ignored.map((path) => `${path} is not read here: it could run any program.`)],
  }
}

async function head(path: string): Promise<string> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(headBytes), 0, headBytes, 0)
    return buffer.subarray(0, bytesRead).toString('utf8')
  } finally {
    await file.close()
  }
}

async function seed(workspace: Workspace, cache: string | null): Promise<void> {
  if (cache === null) return
  const target = join(workspace.hostState, 'texmf-var')
  await mkdir(target, { recursive: true })
  await cp(cache, target, { recursive: true })
}

async function judge(
  task: Task,
  options: LatexOptions,
  entry: Entry,
  workspace: Workspace,
  exit: Exclude<Exit, { kind: 'aborted' }>,
): Promise<Outcome> {
  const { limits, manifest } = task
  const rawLog = await read(workspace, outputPath(entry.path, 'log'), limits.file_bytes, parsedLogBytes)
  const blg = await read(workspace, outputPath(entry.path, 'blg'), limits.file_bytes, parsedLogBytes)
  const log = decoded(rawLog)
  const facts = runFacts(log, exit.output)
  const pdf = await workspace.openResult(outputPath(entry.path, 'pdf'), limits.output_bytes)
  const hasPdf = pdf !== null && facts.pages > 0 && (await isWholePdf(pdf))
  const files = new ProjectFiles(
    manifest.files.map((file) => file.path),
    posix.dirname(entry.path),
    workspace.projectPath,
  )
  const sources = await readSources(task)
  const diagnostics = toDiagnostics({
    entries: [...parseLog(log, files), ...parseBibliographyLog(decoded(blg), files)],
    facts,
    notes: entry.notes,
    files,
    entryPath: entry.path,
    readLines: (path) => sources.get(path) ?? [],
    hasPdf: hasPdf || exit.kind === 'limit',
  }).map((diagnostic) => withoutHostPaths(diagnostic, workspace))
  const exhausted =
    facts.exhausted === null || hasPdf ? null : { name: facts.exhausted, value: limits[facts.exhausted] }
  const limit = exit.kind === 'limit' ? exit.limit : exhausted
  const verdict = decideVerdict({ onError: options.on_error, hasPdf, limit, diagnostics })

  const results: ResultFile[] = [await keepLog(task, workspace, rawLog, exit.output)]
  if (verdict.kind === 'failed') {
    await pdf?.close()
    return { kind: 'failed', failureClass: verdict.failureClass, message: verdict.message, limit, diagnostics, results }
  }
  results.unshift(await keepPdf(task, pdf as FileHandle))
  const synctex = await keepSynctex(task, workspace, entry.path)
  if (synctex !== null) results.push(synctex)
  return { kind: 'completed', results, diagnostics }
}

/** The first part of a result, at most `bytes`; empty if there is none. */
async function read(workspace: Workspace, path: string, maxBytes: number, bytes: number): Promise<Buffer> {
  const file = await workspace.openResult(path, maxBytes)
  if (file === null) return Buffer.alloc(0)
  try {
    const { size } = await file.stat()
    const length = Math.min(size, bytes)
    // What ended a run is at the end of its log.
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, size - length)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

/** Logs hold bytes of any encoding beside UTF-8: what is not UTF-8 is shown as replacement characters. */
const decoded = (bytes: Buffer): string => new TextDecoder('utf-8').decode(bytes)

async function isWholePdf(file: FileHandle): Promise<boolean> {
  const { size } = await file.stat()
  const start = await file.read(Buffer.alloc(5), 0, 5, 0)
  const tail = Math.min(size, 1024)
  const end = await file.read(Buffer.alloc(tail), 0, tail, size - tail)
  return start.buffer.toString('latin1') === '%PDF-' && end.buffer.toString('latin1').includes('%%EOF')
}

async function readSources({ inputDirectory, manifest }: Task): Promise<Map<string, readonly string[]>> {
  const sources = manifest.files.filter(
    (file) => /\.(tex|sty|cls|ltx)$/i.test(file.path) && file.byte_length <= largestSource,
  )
  const texts = await Promise.all(
    sources.map(
      async ({ path }) => [path, (await readFile(join(inputDirectory, path), 'utf8')).split(/\r?\n/)] as const,
    ),
  )
  return new Map(texts)
}

function withoutHostPaths(diagnostic: Diagnostic, workspace: Workspace): Diagnostic {
  const clean = (text: string | null) => text && withoutPath(text, workspace)
  return { ...diagnostic, message: clean(diagnostic.message) ?? '', context: clean(diagnostic.context) }
}

const withoutPath = (text: string, { projectPath, statePath }: Workspace): string =>
  text.replaceAll(`${projectPath}/`, '').replaceAll(`${statePath}/`, '')

async function keepLog(task: Task, workspace: Workspace, log: Buffer, output: string): Promise<ResultFile> {
  const path = join(task.resultDirectory, 'log')
  // Byte for byte but for our own paths: latin1 gives each byte a character and takes it back.
  const text = withoutPath(log.subarray(-keptLogBytes).toString('latin1'), workspace)
  await writeFile(
    path,
    log.length > 0 ? Buffer.from(text, 'latin1') : withoutPath(output, workspace) || 'The build left no log.\n',
  )
  return { role: 'log', mediaType: 'text/plain', path }
}

async function keepPdf(task: Task, pdf: FileHandle): Promise<ResultFile> {
  const path = join(task.resultDirectory, 'pdf')
  try {
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, pdf.createReadStream({ start: 0, autoClose: false }))
  } finally {
    await pdf.close()
  }
  return { role: 'pdf', mediaType: 'application/pdf', path }
}

async function keepSynctex(task: Task, workspace: Workspace, entryPath: string): Promise<ResultFile | null> {
  const file = await workspace.openResult(outputPath(entryPath, 'synctex.gz'), task.limits.output_bytes)
  if (file === null) return null
  const bytes = await file.readFile().finally(() => file.close())
  const rewritten = rewriteSynctex(bytes, workspace.projectPath)
  if (rewritten === null) return null
  const path = join(task.resultDirectory, 'synctex')
  await writeFile(path, rewritten)
  return { role: 'synctex', mediaType: 'application/gzip', path }
}
