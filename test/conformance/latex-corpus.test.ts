import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { diagnostic } from '@platen/worker/protocol'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Executor } from '../../worker/src/sandbox/index.ts'
import type { Processor } from '../../worker/src/sdk/processor.ts'
import { readyProcessor, runLatex, sandbox } from '../support/latex-task.ts'

const corpus = fileURLToPath(new URL('../corpus/latex/', import.meta.url))

interface Case {
  readonly title: string
  readonly entry?: string
  readonly engine?: 'pdflatex' | 'xelatex' | 'lualatex'
  readonly keepGoing?: boolean
  readonly expect: {
    readonly outcome: 'succeeded' | 'failed'
    readonly failureClass?: string
    readonly pages?: number
    readonly textContains?: readonly string[]
    readonly textLacks?: readonly string[]
    readonly diagnosticContains?: readonly string[]
    readonly diagnosticFile?: string
    readonly diagnosticLine?: number
  }
}

describe('the LaTeX processor in the sandbox', () => {
  let executor: Executor
  let processor: Processor
  beforeAll(async () => {
    executor = await sandbox()
    processor = await readyProcessor(executor)
  }, 60_000)

  for (const name of readdirSync(corpus)) {
    const one: Case = JSON.parse(readFileSync(join(corpus, name, 'case.json'), 'utf8'))
    it(`${name}: ${one.title}`, { timeout: 90_000 }, async () => {
      const limits = one.expect.failureClass === 'resource_limit' ? { wall_seconds: 5 } : {}
      const options = {
        entry_path: one.entry ?? null,
        engine: one.engine ?? null,
        on_error: one.keepGoing ? ('publish' as const) : ('fail' as const),
      }
      await using run = await runLatex(processor, executor, { directory: join(corpus, name), options, limits })
      const { outcome } = run
      const told = outcome.diagnostics.map(({ file, line, message }) => `${file}:${line}: ${message}`).join('\n')
      expect(outcome.kind, `${told}\n${outcome.kind === 'failed' ? outcome.message : ''}`).toBe(
        one.expect.outcome === 'succeeded' ? 'completed' : 'failed',
      )
      if (outcome.kind === 'failed') expect(outcome.failureClass, told).toBe(one.expect.failureClass)
      for (const text of one.expect.diagnosticContains ?? []) expect(told).toContain(text)
      if (one.expect.diagnosticFile) {
        expect(outcome.diagnostics).toContainEqual(
          expect.objectContaining({ file: one.expect.diagnosticFile, line: one.expect.diagnosticLine }),
        )
      }
      for (const each of outcome.diagnostics) expect(diagnostic.parse(each)).toEqual(each)
      expect(await run.result('log')).not.toBeNull()
      if (outcome.kind === 'completed') await expectDocument(await run.result('pdf'), one.expect)
    })
  }
})

async function expectDocument(pdf: Buffer | null, expected: Case['expect']): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'platen-pdf-'))
  try {
    await writeFile(join(directory, 'a.pdf'), pdf ?? '')
    const plain = (text: string) => text.normalize('NFKC').split(/\s+/).join(' ').trim()
    const info = execFileSync('pdfinfo', [join(directory, 'a.pdf')], { encoding: 'utf8' })
    const text = plain(execFileSync('pdftotext', ['-layout', join(directory, 'a.pdf'), '-'], { encoding: 'utf8' }))
    if (expected.pages !== undefined) expect(Number(/Pages:\s+(\d+)/.exec(info)?.[1])).toBe(expected.pages)
    for (const wanted of expected.textContains ?? []) expect(text).toContain(plain(wanted))
    for (const unwanted of expected.textLacks ?? []) expect(text).not.toContain(plain(unwanted))
  } finally {
    await rm(directory, { recursive: true })
  }
}
