import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { repositoryRoot } from '../support/repository.ts'

interface Violation {
  readonly from: string
  readonly rule: { readonly name: string }
}

/** Runs the repository's import rules on a tree of `path → text`. */
async function violations(files: Readonly<Record<string, string>>): Promise<string[]> {
  const root = await mkdtemp(join(tmpdir(), 'platen-imports-'))
  try {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await writeFile(join(root, path), text)
    }
    for (const name of ['.dependency-cruiser.cjs', 'tsconfig.base.json', 'package.json']) {
      await copyFile(join(repositoryRoot, name), join(root, name))
    }
    await symlink(join(repositoryRoot, 'node_modules'), join(root, 'node_modules'))
    const tool = join(repositoryRoot, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs')
    const folders = [...new Set(Object.keys(files).map((path) => path.split('/')[0] ?? ''))]
    // Its exit code is the number of violations, which here are wanted.
    const { stdout } = await promisify(execFile)(process.execPath, [tool, ...folders, '--output-type', 'json'], {
      cwd: root,
      maxBuffer: 64 * 1024 * 1024,
    }).catch((error: { stdout: string }) => error)
    const found = (JSON.parse(stdout) as { summary: { violations: Violation[] } }).summary.violations
    return found.map(({ rule, from }) => `${rule.name}: ${from}`)
  } finally {
    await rm(root, { recursive: true, force: true })
  }
}

const contexts = 'server/src/contexts'
const empty = 'export const x = 1\n'

/** What exists to be imported, itself without fault. */
const targets = {
  [`${contexts}/access/index.ts`]: empty,
  [`${contexts}/access/domain/policy.ts`]: empty,
  [`${contexts}/access/store/grants.ts`]: empty,
  [`${contexts}/access/commands/grant.ts`]: empty,
  [`${contexts}/access/graphql/types.ts`]: empty,
  'server/src/platform/database.ts': empty,
  'server/src/app.ts': empty,
  'worker/src/agent/loop.ts': empty,
  'worker/src/sandbox/executor.ts': empty,
  'worker/src/protocol/words.ts': empty,
  'test/support/thing.ts': empty,
}

/** Rule → the file that breaks it, and how. */
const planted: Readonly<Record<string, readonly [string, string]>> = {
  'no-cycles': ['sdk/src/a.ts', `import { b } from './b.ts'\nexport const a = () => b\n`],
  resolvable: ['sdk/src/lost.ts', `import './nowhere.ts'\n`],
  'contexts-through-their-facade': [
    `${contexts}/workspace/commands/reach.ts`,
    `import type { x } from '../../access/store/grants.ts'\nexport type X = typeof x\n`,
  ],
  'graphql-through-facades-and-types': [
    `${contexts}/workspace/graphql/reach.ts`,
    `import '../../access/domain/policy.ts'\n`,
  ],
  'server-through-facades': ['server/src/http/reach.ts', `import '../contexts/access/commands/grant.ts'\n`],
  'domain-is-pure': [`${contexts}/access/domain/impure.ts`, `import '../../../platform/database.ts'\n`],
  'domain-does-no-io': [`${contexts}/access/domain/reads.ts`, `import 'node:fs'\n`],
  'store-below-commands': [`${contexts}/access/store/calls.ts`, `import '../commands/grant.ts'\n`],
  'commands-below-edges': [`${contexts}/access/commands/shows.ts`, `import '../graphql/types.ts'\n`],
  'edges-use-commands': [`${contexts}/access/graphql/reads.ts`, `import '../store/grants.ts'\n`],
  'platform-has-no-business': ['server/src/platform/knows.ts', `import '../contexts/access/index.ts'\n`],
  'one-composition-root': ['server/src/other.ts', `import './app.ts'\n`],
  'clients-do-not-import-the-server': ['web-widget/src/reach.ts', `import '../../server/src/platform/database.ts'\n`],
  'only-the-protocol-is-shared': ['server/src/reach.ts', `import '../../worker/src/agent/loop.ts'\n`],
  'protocol-is-a-leaf': ['worker/src/protocol/heavy.ts', `import 'undici'\n`],
  'processors-use-the-sdk': ['worker/src/processors/latex/reach.ts', `import '../../sandbox/executor.ts'\n`],
  'only-the-sandbox-spawns': [
    'worker/src/agent/spawns.ts',
    `import { spawn } from 'node:child_process'\nspawn('ls')\n`,
  ],
  'no-test-code-in-sources': ['scripts/reach.ts', `import '../test/support/thing.ts'\n`],
}

const rules = (
  (await import(join(repositoryRoot, '.dependency-cruiser.cjs'))) as { default: { forbidden: { name: string }[] } }
).default.forbidden.map((rule) => rule.name)

test('for each import rule a violation is planted below', () => {
  expect(Object.keys(planted).sort()).toEqual([...rules].sort())
})

test('each planted violation is caught, and nothing else is', async () => {
  const offenders = Object.fromEntries(Object.values(planted))
  const found = await violations({
    ...targets,
    ...offenders,
    'sdk/src/b.ts': `import { a } from './a.ts'\nexport const b = () => a\n`,
  })
  const wanted = Object.entries(planted).map(([rule, [file]]) => `${rule}: ${file}`)
  expect(found).toEqual(expect.arrayContaining(wanted))
  // Both files of the cycle are named.
  expect(found.filter((each) => !wanted.includes(each) && each !== 'no-cycles: sdk/src/b.ts')).toEqual([])
})

test('the imports that the rules are there to leave alone pass', async () => {
  const found = await violations({
    ...targets,
    [`${contexts}/workspace/commands/ask.ts`]: `import '../../access/index.ts'\nimport '../../../platform/database.ts'\n`,
    [`${contexts}/workspace/graphql/project.ts`]: `import '../../access/graphql/types.ts'\n`,
    'server/src/graphql/schema.ts': `import '../contexts/access/graphql/types.ts'\n`,
    [`${contexts}/access/domain/digest.ts`]: `import 'node:crypto'\nimport 'zod'\n`,
    'worker/src/agent/speaks.ts': `import '../protocol/words.ts'\n`,
    'worker/src/sandbox/run.ts': `import 'node:child_process'\n`,
    'server/src/main.ts': `import './app.ts'\n`,
  })
  expect(found).toEqual([])
})
