import { migrate } from '../server/src/platform/migrate.ts'
import { startCalibration } from './queue/calibration.ts'
import { measureClaimCost } from './queue/claim-cost.ts'
import { settings, startCluster } from './queue/cluster.ts'
import { installGraphile } from './queue/graphile.ts'
import { measureHeldSnapshot } from './queue/held-snapshot.ts'
import { measureLimits } from './queue/limits.ts'
import { installBoss } from './queue/pg-boss.ts'
import type { Part } from './queue/report.ts'
import { measureStartLatency } from './queue/start-latency.ts'
import { measureThroughput } from './queue/throughput.ts'

/** As many as fit into ten minutes, with some to spare for rounds that are given up. */
const mostRounds = 3
const spareSeconds = 50
/** When each part begins no further round, in seconds since the start: on a slow machine all parts still have one. */
const lastRoundSeconds = { throughput: 220, latency: 330, limits: 400, claimTime: 570 }
const slots = 8

/** Platen's queue against pg-boss and graphile-worker, on one PostgreSQL in one run. */
export async function queue(runs: number): Promise<{ readonly text: string; readonly data: unknown }> {
  const rounds = Math.min(runs, mostRounds)
  const began = performance.now()
  const elapsed = () => `${((performance.now() - began) / 1000).toFixed(0)} s`
  const by = (part: keyof typeof lastRoundSeconds) => began + lastRoundSeconds[part] * 1000
  await using cluster = await startCluster()
  const templates = {
    platen: await cluster.prepare('template_platen', migrate),
    graphile: await cluster.prepare('template_graphile', installGraphile),
    boss: await cluster.prepare('template_boss', installBoss),
  }
  await using calibration = await startCalibration(cluster, spareSeconds)
  const parts: Part[] = []
  const note = (...done: readonly Part[]) => {
    parts.push(...done)
    console.error(`${done.map(({ title }) => title).join(', ')}: done after ${elapsed()}`)
  }
  note(
    ...(await measureThroughput(cluster, calibration, templates, {
      rounds,
      until: by('throughput'),
      slots,
      times: { warmUpSeconds: 2, seconds: 6 },
      protocolTimes: { warmUpSeconds: 4, seconds: 6 },
      jobs: { platen: 8_000, graphile: 40_000, graphileBatched: 120_000, boss: 20_000, protocol: 3_000 },
    })),
  )
  note(
    await measureStartLatency(cluster, calibration, templates, {
      rounds,
      until: by('latency'),
      samples: Math.ceil(500 / rounds),
    }),
  )
  note(
    await measureLimits(cluster, calibration, templates.platen, {
      rounds,
      until: by('limits'),
      claimers: 64,
      jobs: 6_000,
      warmUpSeconds: 2,
      seconds: 5,
    }),
  )
  note(
    await measureHeldSnapshot(cluster, templates.platen, {
      beforeSeconds: 15,
      heldSeconds: 60,
      afterSeconds: 30,
      jobsPerSecond: 50,
    }),
  )
  note(
    await measureClaimCost(cluster, calibration, templates.platen, {
      few: 1_000,
      middle: 100_000,
      many: 1_000_000,
      blocked: 100_000,
      samples: 300,
      rounds,
      until: by('claimTime'),
    }),
  )
  const preface = `One PostgreSQL (${Object.entries(settings)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ')}); ${cluster.placement}; ${elapsed()}. Figures are medians of the rounds, in brackets their ends.`
  return {
    text: [preface, ...parts.flatMap(({ title, text }) => [`### ${title}`, text])].join('\n\n'),
    data: {
      settings,
      placement: cluster.placement,
      seconds: (performance.now() - began) / 1000,
      parts: Object.fromEntries(parts.map(({ title, data }) => [title, data])),
    },
  }
}
