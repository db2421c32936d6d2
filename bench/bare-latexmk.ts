import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** The options of the LaTeX processor, so that both sides do the same work. */
const options = [
  '-norc',
  '-cd',
  '-pdf',
  '-interaction=nonstopmode',
  '-file-line-error',
  '-recorder',
  '-synctex=1',
  '-latexoption=-no-shell-escape',
]

/**
 * Compiles a fresh copy of `directory` with latexmk alone, outside any sandbox.
 *
 * @returns milliseconds from the start of the process to its end
 */
export async function timeBareLatexmk(directory: string, entry: string): Promise<number> {
  const copy = await mkdtemp(join(tmpdir(), 'platen-bench-'))
  try {
    await cp(directory, copy, { recursive: true })
    const began = performance.now()
    await promisify(execFile)('latexmk', [...options, entry], {
      cwd: copy,
      maxBuffer: 64 * 1024 * 1024,
      env: {
        PATH: process.env.PATH,
        HOME: copy,
        SOURCE_DATE_EPOCH: '0',
        FORCE_SOURCE_DATE: '1',
        max_print_line: '10000',
      },
    })
    return performance.now() - began
  } finally {
    await rm(copy, { recursive: true, force: true })
  }
}
