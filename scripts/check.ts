// `npm run check`: everything that is not a test. Each part names itself when it fails.
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

interface Outcome {
  readonly ok: boolean
  readonly output: string
}

interface Part {
  readonly name: string
  /** What to do about a failure. */
  readonly remedy: string
  readonly run: () => Promise<Outcome>
}

const root = fileURLToPath(new URL('../', import.meta.url))

function command(file: string, ...args: string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    const child = spawn(file, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk))
    child.on('error', (error) => resolve({ ok: false, output: error.message }))
    child.on('close', (code) => resolve({ ok: code === 0, output }))
  })
}

/** The program `name` of an npm package, run by this Node. */
function tool(packageName: string, name: string, ...args: string[]): Promise<Outcome> {
  const manifest = join(root, 'node_modules', packageName, 'package.json')
  const { bin } = JSON.parse(readFileSync(manifest, 'utf8')) as { bin: string | Record<string, string> }
  const program = typeof bin === 'string' ? bin : bin[name]
  return command(process.execPath, join(dirname(manifest), program ?? name), ...args)
}

/** A lock file with download addresses would tie every installation to one registry. */
async function lockWithoutAddresses(): Promise<Outcome> {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { resolved?: string; link?: boolean }>
  }
  const bad = Object.entries(packages).filter(([, entry]) => entry.resolved !== undefined && !entry.link)
  return { ok: bad.length === 0, output: bad.map(([path, { resolved }]) => `${path}: ${resolved}`).join('\n') }
}

const sourceFolders = readdirSync(root, { withFileTypes: true })
  .filter(
    (entry) =>
      entry.isDirectory() && ['server', 'worker', 'sdk', 'web-widget', 'scripts', 'test', 'bench'].includes(entry.name),
  )
  .map((entry) => entry.name)

const parts: readonly Part[] = [
  {
    name: 'types',
    remedy: 'see the messages; the compiler is node_modules/ts7/bin/tsc -b',
    run: () => tool('ts7', 'tsc', '-b'),
  },
  {
    name: 'lint and format',
    remedy: 'npm run format',
    run: () => tool('@biomejs/biome', 'biome', 'check', '--error-on-warnings'),
  },
  {
    name: 'imports',
    remedy: 'the rules and their reasons are in .dependency-cruiser.cjs',
    run: () => tool('dependency-cruiser', 'depcruise', ...sourceFolders, '--output-type', 'err-long'),
  },
  { name: 'dead code', remedy: 'remove it, or say in knip.json who uses it', run: () => tool('knip', 'knip') },
  {
    name: 'generated files',
    remedy: 'npm run generate, and commit what changed',
    run: () => command(process.execPath, join(root, 'scripts/generate.ts'), '--check'),
  },
  {
    name: 'lock file',
    remedy: 'npm install --package-lock-only, with the .npmrc of this repository',
    run: lockWithoutAddresses,
  },
]

/** Runs the parts, at most `width` at once, and reports each as it ends. */
async function runAll(width: number): Promise<string[]> {
  const waiting = [...parts]
  const failed: string[] = []
  const next = async (): Promise<void> => {
    const part = waiting.shift()
    if (!part) return
    const { ok, output } = await part.run()
    console.log(`${ok ? 'ok    ' : 'FAILED'} ${part.name}`)
    if (!ok) {
      failed.push(part.name)
      console.log(`${output.trimEnd()}\n→ ${part.remedy}\n`)
    }
    return next()
  }
  await Promise.all(Array.from({ length: width }, next))
  return failed
}

const failed = await runAll(Math.min(2, availableParallelism()))
console.log(failed.length === 0 ? 'All checks passed.' : `Failed: ${failed.join(', ')}.`)
process.exit(failed.length === 0 ? 0 : 1)
