import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { invocation } from '../worker/src/processors/latex/invocation.ts'

/**
 * Compiles a fresh copy of `directory` with latexmk alone, outside any sandbox.
 *
 * @returns milliseconds from the start of the process to its end
 */
export async function timeBareLatexmk(directory: string, entry: string): Promise<number> {
  const copy = await mkdtemp(join(tmpdir(), 'platen-bench-'))
  try {
    const projectPath = join(copy, 'project')
    await cp(directory, projectPath, { recursive: true })
    // The processor's own invocation, so that both sides do the same work.
    const { command, args, environment } = invocation({
      entry,
      engine: 'pdflatex',
      onError: 'fail',
      sourceEpoch: null,
      projectPath,
      statePath: join(copy, 'state'),
    })
    const began = performance.now()
    await promisify(execFile)(command, args, { cwd: projectPath, env: environment, maxBuffer: 64 * 1024 * 1024 })
    return performance.now() - began
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}
