// `npm run bench [-- NAME …] [--runs N]`: prints a table per case and writes bench/results/NAME.json.
import { mkdir, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { overhead } from './overhead.ts'
import { queue } from './queue.ts'
import { recovery } from './recovery.ts'

const cases = { overhead, queue, recovery }

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { runs: { type: 'string', default: '5' } },
})
const runs = Number(values.runs)
const names = positionals.length > 0 ? positionals : Object.keys(cases)
const unknown = names.filter((name) => !Object.hasOwn(cases, name))
if (unknown.length > 0 || !Number.isInteger(runs) || runs < 1) {
  console.error(`usage: npm run bench -- [${Object.keys(cases).join('|')}] [--runs N]`)
  process.exit(2)
}

const results = new URL('./results/', import.meta.url)
await mkdir(results, { recursive: true })
for (const name of names) {
  const { text, data } = await cases[name as keyof typeof cases](runs)
  const machine = { cores: availableParallelism(), processor: cpus()[0]?.model, node: process.version }
  await writeFile(
    new URL(`${name}.json`, results),
    `${JSON.stringify({ name, machine, ...(data as object) }, null, 2)}\n`,
  )
  console.log(`\n## ${name}\n\n${text}`)
}
