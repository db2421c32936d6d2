// `npm test [-- FILTER …]`: filters and options are vitest's.
import { parseCLI, startVitest, type TestModule, type Vitest } from 'vitest/node'
import { countByProject, report, type TestFile } from './test-counts.ts'

/** Narrowed on purpose: then a project without tests is no surprise, and tests left out by name are not failures. */
const { filter, options } = parseCLI(['vitest', 'run', ...process.argv.slice(2)])
const byName = options.testNamePattern !== undefined
const narrowed = filter.length > 0 || byName || options.project !== undefined

function testFile(module: TestModule): TestFile {
  const tests = [...module.children.allTests()].map((test) => test.result().state)
  return {
    project: module.project.name,
    broken: module.state() === 'failed',
    tests: byName ? tests.filter((state) => state !== 'skipped') : tests,
  }
}

async function run(): Promise<Vitest> {
  const vitest = await startVitest(filter, { ...options, watch: false, passWithNoTests: true })
  await vitest.close()
  return vitest
}

const began = performance.now()
const vitest = await run()
const { text, ok } = report(
  countByProject(
    vitest.projects.map((project) => project.name),
    vitest.state.getTestModules().map(testFile),
  ),
  narrowed,
  vitest.state.getUnhandledErrors().length,
)
console.log(`Wall time ${Math.round((performance.now() - began) / 1000)} s`)
console.log(text)
process.exit(ok ? 0 : 1)
