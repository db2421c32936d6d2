import { rmSync } from 'node:fs'
import { cp, mkdir, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Executor, Outcome, Processor, Readiness, Task } from '../../sdk/index.ts'
import { environment, invocation } from './invocation.ts'
import { buildDocument } from './run.ts'
import { contractOf, findToolchain } from './toolchain.ts'

const name = 'latex'
const version = '1'

/** The processor of `latex.compile.pdf/v1`: latexmk over the TeX Live of its host. */
export function latexProcessor(): Processor {
  let fontCache: Promise<string | null> = Promise.resolve(null)
  return {
    operation: 'latex.compile.pdf/v1',
    name,
    version,
    inspect: async (executor: Executor): Promise<Readiness> => {
      const toolchain = await findToolchain()
      if ('problem' in toolchain) return { ready: false, reason: toolchain.problem }
      const anywhere = {
        entry: 'main.tex',
        sourceEpoch: null,
        onError: 'fail',
        projectPath: '/job',
        statePath: '/state',
      } as const
      const rules = toolchain.engines.map((engine) => ({ ...invocation({ ...anywhere, engine }) }))
      // Its first LuaLaTeX document would wait for it; nobody else has to.
      if (toolchain.engines.includes('lualatex')) fontCache = warmFontCache(executor)
      const { engines, distribution, packages, fonts } = toolchain
      return {
        ready: true,
        contract: contractOf({ name, version, rules }, toolchain),
        facts: { engines, distribution, packages, fonts },
      }
    },
    run: (task: Task): Promise<Outcome> => buildDocument(task, () => fontCache),
  }
}

const warmLimits = {
  wall_seconds: 120,
  cpu_seconds: 120,
  memory_bytes: 1024 ** 3,
  processes: 32,
  file_bytes: 64 * 1024 ** 2,
  workspace_bytes: 256 * 1024 ** 2,
  workspace_files: 5_000,
  output_bytes: 1024 ** 2,
}

/**
 * LuaTeX takes minutes to list the fonts of a host, and keeps the list in the first place it may write to. Made once
 * and given to each attempt, it costs a copy.
 *
 * @returns a host directory to put into an attempt's state, or null if there is none
 */
async function warmFontCache(executor: Executor): Promise<string | null> {
  try {
    await using workspace = await executor.open({ limits: warmLimits, signal: new AbortController().signal })
    const { projectPath, statePath } = workspace
    await workspace.run({
      command: '/usr/bin/luaotfload-tool',
      args: ['--update', '--quiet'],
      environment: { ...environment({ sourceEpoch: null, projectPath, statePath }), OSFONTDIR: '/usr/share/fonts//' },
      directory: '',
    })
    const cache = await mkdtemp(join(tmpdir(), `platen-${process.pid}-fonts-`))
    process.once('exit', () => rmSync(cache, { recursive: true, force: true }))
    await mkdir(join(workspace.hostState, 'texmf-var'), { recursive: true })
    await cp(join(workspace.hostState, 'texmf-var'), cache, { recursive: true })
    return cache
  } catch {
    return null
  }
}
