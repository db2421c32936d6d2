import { createHash } from 'node:crypto'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, posix } from 'node:path'
import type { LatexOptions, Limits, ManifestFile } from '@platen/worker/protocol'
import { latexProcessor } from '../../worker/src/processors/latex/index.ts'
import { createExecutor, type Executor } from '../../worker/src/sandbox/index.ts'
import type { Outcome, Processor } from '../../worker/src/sdk/processor.ts'

const defaultLimits: Limits = {
  wall_seconds: 60,
  cpu_seconds: 60,
  memory_bytes: 2 * 1024 ** 3,
  processes: 64,
  file_bytes: 128 * 1024 ** 2,
  workspace_bytes: 512 * 1024 ** 2,
  workspace_files: 5_000,
  output_bytes: 64 * 1024 ** 2,
}

/** The real sandbox; a host that has none fails with what it lacks. */
export async function sandbox(slots = 2): Promise<Executor> {
  const readiness = await createExecutor('bubblewrap', { temporaryDirectory: tmpdir(), slots })
  if (!readiness.ready) throw new Error(readiness.reason)
  return readiness.executor
}

/** The LaTeX processor on this host's TeX; a host that has none fails with what to install. */
export async function readyProcessor(executor: Executor): Promise<Processor> {
  const processor = latexProcessor()
  const readiness = await processor.inspect(executor)
  if (!readiness.ready) throw new Error(readiness.reason)
  return processor
}

export interface LatexRun {
  readonly directory: string
  readonly options?: Partial<LatexOptions>
  readonly limits?: Partial<Limits>
  readonly sourceEpoch?: number
  readonly signal?: AbortSignal
}

export interface LatexResult extends AsyncDisposable {
  readonly outcome: Outcome
  /** Bytes of a result file, or null. */
  result(role: string): Promise<Buffer | null>
}

/** Runs the processor on a folder as the agent would on a captured project. */
export async function runLatex(processor: Processor, executor: Executor, run: LatexRun): Promise<LatexResult> {
  const root = await mkdtemp(join(tmpdir(), 'platen-latex-'))
  const [inputDirectory, resultDirectory] = [join(root, 'input'), join(root, 'result')]
  await mkdir(resultDirectory)
  await cp(run.directory, inputDirectory, { recursive: true, filter: (path) => posix.basename(path) !== 'case.json' })
  const outcome = await processor.run({
    options: { engine: null, entry_path: null, on_error: 'fail', ...run.options } satisfies LatexOptions,
    manifest: {
      schema: 'project-bundle/v1',
      project_type: 'LATEX',
      entry_path: null,
      settings: { engine: null },
      workspace_version: 1,
      content_generation: 1,
      source_epoch: run.sourceEpoch ?? null,
      files: await manifestFiles(inputDirectory),
    },
    inputDirectory,
    resultDirectory,
    limits: { ...defaultLimits, ...run.limits },
    signal: run.signal ?? new AbortController().signal,
    executor,
  })
  return {
    outcome,
    result: async (role) => {
      const file = outcome.results.find((result) => result.role === role)
      return file ? readFile(file.path) : null
    },
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true }),
  }
}

async function manifestFiles(directory: string): Promise<ManifestFile[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  const files = await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async (entry) => {
        const path = join(entry.parentPath, entry.name)
        const sha256 = createHash('sha256')
          .update(await readFile(path))
          .digest('hex')
        const name = path.slice(directory.length + 1)
        return { path: name, kind: 'document' as const, byte_length: (await stat(path)).size, sha256 }
      }),
  )
  return files.sort((a, b) => (a.path < b.path ? -1 : 1))
}
