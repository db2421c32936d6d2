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

/** A server compiles its own code while it does its first jobs; a long-running one has that behind it. */
const warmUpJobs = 20

/** @returns what the first job after the start took, in milliseconds */
async function warmUp(api: GraphQLConnection): Promise<number> {
  const projectId = await createProject(api, directoryOf('letter'), 'main.tex')
  const times: number[] = []
  for (let job = 0; job < warmUpJobs; job += 1) times.push((await timeBuild(api, projectId)).totalMs)
  return times[0] ?? 0
}

/** Platen's whole job, from `buildProject` to the downloaded PDF, against latexmk on the same files. */
export async function overhead(runs: number): Promise<{ readonly text: string; readonly data: unknown }> {
  await using stack = await startBenchStack()
  const api = new GraphQLConnection(stack.url, stack.token)
  const firstJobMs = await warmUp(api)
  const results: Measured[] = []
  for (const document of documents) results.push(await measure(api, document, runs * document.repeat))
  const preface = `Medians; both sides in turn, after ${warmUpJobs} jobs to warm the server up, of which the first took ${firstJobMs.toFixed(0)} ms.`
  return { text: `${preface}\n\n${report(results)}`, data: { runs, firstJobMs, documents: results } }
}
