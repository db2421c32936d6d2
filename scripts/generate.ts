// `npm run generate` writes what is printed from the code; `--check` only compares, and fails on a difference.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defaultLimits } from '../server/src/config/limits.ts'
import { defaultProcessorLimits } from '../server/src/contexts/distribution/deployment.ts'
import { moves } from '../server/src/contexts/processing/domain/lifecycle.ts'
import { printSchema } from '../server/src/graphql/print.ts'
import { printOpenApi } from '../worker/src/protocol/openapi.ts'
import { lifecyclePage } from './reference-lifecycle.ts'
import { commentsOf, limitsPage } from './reference-limits.ts'

const root = fileURLToPath(new URL('../', import.meta.url))

function read(file: string): string {
  try {
    return readFileSync(join(root, file), 'utf8')
  } catch {
    return ''
  }
}

const endingInNewline = (text: string) => (text.endsWith('\n') ? text : `${text}\n`)

const generated: Readonly<Record<string, () => string>> = {
  'schema.graphql': printSchema,
  'docs/reference/worker-protocol.openapi.json': printOpenApi,
  'docs/reference/lifecycle.md': () => lifecyclePage(moves),
  'docs/reference/limits.md': () =>
    limitsPage(defaultLimits, commentsOf(read('server/src/config/limits.ts'), 'defaultLimits'), defaultProcessorLimits),
}

const checkOnly = process.argv.includes('--check')
const differing = Object.entries(generated).filter(([file, print]) => {
  const text = endingInNewline(print())
  if (text === read(file)) return false
  if (!checkOnly) {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), text)
  }
  return true
})
for (const [file] of differing) console.log(checkOnly ? `${file} is not what the code prints` : `wrote ${file}`)
process.exitCode = checkOnly && differing.length > 0 ? 1 : 0
