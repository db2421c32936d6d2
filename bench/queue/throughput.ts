import { median, table } from '../statistics.ts'
import { type Block, runBlock, type Times } from './block.ts'
import { type Calibration, describeRounds } from './calibration.ts'
import type { Cluster } from './cluster.ts'
import { batched, graphile, unbatched } from './graphile.ts'
import { pgBoss } from './pg-boss.ts'
import { type ProtocolBlock, runProtocolBlock } from './protocol.ts'
import { figures, type Part, spread, verdict, whole } from './report.ts'
import { platen, platenBatched } from './systems.ts'

export interface Templates {
  readonly platen: string
  readonly graphile: string
  readonly boss: string
}

export interface ThroughputSizes {
  readonly rounds: number
  /** No round but the first begins later, by `performance.now()`. */
  readonly until: number
  readonly slots: number
  readonly times: Times
  readonly protocolTimes: Times
  /** Jobs in line at the start of a block, more than any machine does in it. */
  readonly jobs: { platen: number; graphile: number; graphileBatched: number; boss: number; protocol: number }
}

const titles: Readonly<Record<string, string>> = {
  claims: 'claims that one acquire brought',
  'whole job': 'stage, put and complete',
  'until published': 'from then until published',
  'Core, processor': 'processor time of Core, a job',
  'worker, processor': 'processor time of the worker, a job',
}
const engineAim = 0.5
const bossAim = 1
const protocolAim = 0.25

/** Jobs per second without and with the protocol, against the peers, in turn. */
export async function measureThroughput(
  cluster: Cluster,
  calibration: Calibration,
  templates: Templates,
  { rounds: count, until, slots, times, protocolTimes, jobs }: ThroughputSizes,
): Promise<readonly [Part, Part]> {
  const systems = {
    platen: platen(templates.platen, jobs.platen),
    together: platenBatched(templates.platen, jobs.platen),
    graphile: graphile(templates.graphile, jobs.graphile, unbatched),
    batched: graphile(templates.graphile, jobs.graphileBatched, batched),
    boss: pgBoss(templates.boss, jobs.boss),
  }
  const measured = await calibration.rounds({ name: 'throughput', count, until }, async (checked) => {
    const block = (name: keyof typeof systems) =>
      checked(async () => {
        const done = await runBlock(cluster, systems[name], slots, times)
        console.error(
          `${systems[name].name}: ${whole(done.jobsPerSecond)} jobs/s${done.fault ? `, ${done.fault}` : ''}`,
        )
        return done
      })
    const protocol = () =>
      checked(async () => {
        const sizes = { slots, jobs: jobs.protocol }
        const done = await runProtocolBlock(cluster, templates.platen, sizes, protocolTimes)
        console.error(`Platen, whole protocol: ${done.jobsPerSecond.toFixed(1)} jobs/s`)
        return done
      })
    return {
      platen: await block('platen'),
      graphile: await block('graphile'),
      boss: await block('boss'),
      together: await block('together'),
      protocol: await protocol(),
      batched: await block('batched'),
    }
  })
  const { results } = measured
  type Round = (typeof results)[number]
  const blocks = (name: keyof Round): readonly Block[] => results.map((round) => round[name])
  const ratio = (name: keyof Round, peer: keyof Round) =>
    results.map((round) => round[name].jobsPerSecond / round[peer].jobsPerSecond)
  const rows = (
    [
      ['Platen, one job a claim', 'platen'],
      ['Platen, one claim for all free slots', 'together'],
      ['Platen, whole protocol', 'protocol'],
      ['graphile-worker, unbatched', 'graphile'],
      ['pg-boss', 'boss'],
      ['graphile-worker, batched (not judged)', 'batched'],
    ] as const
  ).map(([title, name]) => rowOf(title, blocks(name)))
  const judged = (what: string, ratios: readonly number[], aim: number, ...names: readonly (keyof Round)[]) => {
    const sound = names.every((name) => blocks(name).every(({ fault }) => fault === null))
    return [what, spread(ratios), `≥ ${aim}`, sound ? verdict(median(ratios) >= aim) : 'not sound'] as const
  }
  const profile = results.map((round) => (round.protocol as ProtocolBlock).steps)
  const engine: Part = {
    title: 'Engine, without HTTP',
    text: [
      `${slots} slots; a claim and an end are a transaction each. Median of the rounds and, in brackets, their ends. ${describeRounds(measured)}.`,
      table([['system', 'jobs/s', 'commits/job', 'WAL bytes/job', 'server CPU ms/job', 'client CPU ms/job'], ...rows]),
      figures([
        judged('Platen / graphile-worker unbatched', ratio('platen', 'graphile'), engineAim, 'platen', 'graphile'),
        judged(
          'Platen, one claim for all free slots / graphile-worker unbatched',
          ratio('together', 'graphile'),
          engineAim,
          'together',
          'graphile',
        ),
        judged('Platen / pg-boss', ratio('platen', 'boss'), bossAim, 'platen', 'boss'),
        judged(
          'Platen, one claim for all free slots / pg-boss',
          ratio('together', 'boss'),
          bossAim,
          'together',
          'boss',
        ),
      ]),
    ].join('\n\n'),
    data: { slots, ...measured },
  }
  const protocol: Part = {
    title: 'Whole protocol',
    text: [
      `Core and a worker with ${slots} slots as processes: acquire, stage, put, complete, until the result is published.`,
      figures([
        [
          'jobs/s until published',
          faulty(blocks('protocol')) ??
            spread(
              blocks('protocol').map(({ jobsPerSecond }) => jobsPerSecond),
              1,
            ),
          '',
          '',
        ],
        judged(
          'whole protocol / graphile-worker unbatched',
          ratio('protocol', 'graphile'),
          protocolAim,
          'protocol',
          'graphile',
        ),
      ]),
      table([
        ['where the time goes', 'mean ms, or as said'],
        ...Object.keys(profile[0] ?? {}).map((step) => [
          titles[step] ?? step,
          spread(profile.map((steps) => steps[step] as number)),
        ]),
      ]),
    ].join('\n\n'),
    data: { slots, rounds: results.map((round) => round.protocol) },
  }
  return [engine, protocol]
}

const faulty = (blocks: readonly Block[]): string | null => {
  const faults = blocks.flatMap(({ fault }) => fault ?? [])
  return faults.length === 0 ? null : faults.join('; ')
}

function rowOf(title: string, blocks: readonly Block[]): string[] {
  const of = (figure: (block: Block) => number | null) => blocks.flatMap((block) => figure(block) ?? [])
  const server = of(({ serverMsPerJob }) => serverMsPerJob)
  return [
    title,
    faulty(blocks) ??
      spread(
        of(({ jobsPerSecond }) => jobsPerSecond),
        0,
      ),
    median(of(({ commitsPerJob }) => commitsPerJob)).toFixed(2),
    whole(median(of(({ walBytesPerJob }) => walBytesPerJob))),
    server.length === 0 ? '–' : median(server).toFixed(2),
    median(of(({ clientMsPerJob }) => clientMsPerJob)).toFixed(2),
  ]
}
