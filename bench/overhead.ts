import { fileURLToPath } from 'node:url'
import { timeBareLatexmk } from './bare-latexmk.ts'
import { GraphQLConnection } from './graphql.ts'
import { type BuildTimes, createProject, timeBuild } from './project.ts'
import { startBenchStack } from './stack.ts'
import { median, table } from './statistics.ts'

/** What is over in an instant is measured more often: there the noise is of the size of the result. */
const documents = [
  { name: 'letter', title: 'one page', entry: 'main.tex', repeat: 4 },
  { name: 'article', title: '30-page article with bibliography', entry: 'main.tex', repeat: 1 },
  { name: 'deck', title: 'beamer deck with TikZ', entry: 'main.tex', repeat: 1 },
]

const directoryOf = (name: string) => fileURLToPath(new URL(`./documents/${name}`, import.meta.url))

interface Measured {
  readonly document: string
  readonly title: string
  readonly bareMs: readonly number[]
  readonly platen: readonly BuildTimes[]
  readonly bareMedianMs: number
  readonly platenMedianMs: number
  readonly ratio: number
  readonly overheadMs: number
}

/** Both sides in turn, so that what the machine does meanwhile meets both; the first pair only warms up. */
async function measure(
  api: GraphQLConnection,
  { name, title, entry }: (typeof documents)[number],
  runs: number,
): Promise<Measured> {
  const projectId = await createProject(api, directoryOf(name), entry)
  const bareMs: number[] = []
  const platen: BuildTimes[] = []
  for (let run = 0; run <= runs; run += 1) {
    const bare = await timeBareLatexmk(directoryOf(name), entry)
    const build = await timeBuild(api, projectId)
    if (run === 0) continue
    bareMs.push(bare)
    platen.push(build)
    console.error(`${name} ${run}/${runs}: latexmk ${bare.toFixed(0)} ms, Platen ${build.totalMs.toFixed(0)} ms`)
  }
  const bareMedianMs = median(bareMs)
  const platenMedianMs = median(platen.map(({ totalMs }) => totalMs))
  const ratio = platenMedianMs / bareMedianMs
  return {
    document: name,
    title,
    bareMs,
    platen,
    bareMedianMs,
    platenMedianMs,
    ratio,
    overheadMs: platenMedianMs - bareMedianMs,
  }
}

const report = (results: readonly Measured[]) =>
  table([
    [
      'document',
      'runs',
      'latexmk alone (ms)',
      'whole job (ms)',
      'ratio',
      'overhead (ms)',
      'of it before the start (ms)',
    ],
    ...results.map((result) => [
      result.title,
      String(result.platen.length),
      result.bareMedianMs.toFixed(0),
      result.platenMedianMs.toFixed(0),
      result.ratio.toFixed(2),
      result.overheadMs.toFixed(0),
      median(result.platen.map(({ beforeStartMs }) => beforeStartMs)).toFixed(0),
    ]),
  ])

/** Platen's whole job, from `buildProject` to the downloaded PDF, against latexmk on the same files. */
export async function overhead(runs: number): Promise<{ readonly text: string; readonly data: unknown }> {
  await using stack = await startBenchStack()
  const api = new GraphQLConnection(stack.url, stack.token)
  const results: Measured[] = []
  for (const document of documents) results.push(await measure(api, document, runs * document.repeat))
  return { text: `Medians; both sides in turn.\n\n${report(results)}`, data: { runs, documents: results } }
}
