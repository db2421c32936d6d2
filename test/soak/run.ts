// `npm run soak -- --seconds N [--seed S]`: Core, PostgreSQL and workers as processes under load, while they are killed,
// stopped and cut off; then everything heals, and a checker reads the database and what the clients lived.
// `-- --model N`, `-- --interleavings` and `-- --mutants` run the other proofs at full width.
import { parseArgs } from 'node:util'
import { databaseViolations, historySql, storyViolations } from './checker.ts'
import { Faults, failpointNames } from './faults.ts'
import { Load } from './load.ts'
import { runMutants } from './mutants.ts'
import { SoakStack } from './stack.ts'
import { runTests } from './test-run.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string' },
    seed: { type: 'string' },
    model: { type: 'string' },
    interleavings: { type: 'boolean' },
    mutants: { type: 'boolean' },
    only: { type: 'string' },
  },
})

/** Mulberry32: small, and the same everywhere. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

async function soak(seconds: number, seed: number): Promise<boolean> {
  console.log(`soak of ${seconds} s, seed ${seed}`)
  await using stack = await SoakStack.start(randomOf(seed))
  await stack.query(historySql)
  const load = new Load(stack)
  await load.prepare()
  const faults = new Faults(stack)
  load.start(40)
  faults.start()
  const started = performance.now()
  const elapsed = () => (performance.now() - started) / 1000
  while (elapsed() < seconds) {
    await new Promise((resolve) => setTimeout(resolve, Math.min(30, seconds - elapsed()) * 1000))
    const ended = load.stories.filter(({ last }) => last).length
    console.log(`${elapsed().toFixed(0)} s: ${load.stories.length} submissions, ${ended} seen, ${faults.kills} kills`)
  }
  await faults.heal()
  const healed = performance.now()
  await load.drain()
  const drainSeconds = (performance.now() - healed) / 1000
  const violations = [...stack.crashes, ...storyViolations(load.stories), ...(await databaseViolations(stack, 60_000))]
  const [counts] = await stack.query<Record<string, number>>(`
    SELECT
      (SELECT count(*)::int FROM processing.job) AS jobs,
      (SELECT count(*)::int FROM processing.job WHERE state = 'succeeded') AS succeeded,
      (SELECT count(*)::int FROM processing.job WHERE state = 'failed') AS failed,
      (SELECT count(*)::int FROM processing.job WHERE state = 'cancelled') AS cancelled,
      (SELECT count(*)::int FROM processing.job WHERE state = 'expired') AS expired,
      (SELECT count(*)::int FROM processing.attempt) AS claims,
      (SELECT count(*)::int FROM processing.attempt WHERE outcome = 'lease_expired') AS lost_claims`)
  const network = stack.proxies.reduce(
    (sum, { counts: each }) => ({
      calls: sum.calls + each.calls,
      lost: sum.lost + each.lostRequests + each.lostAnswers,
      doubled: sum.doubled + each.doubled,
    }),
    { calls: 0, lost: 0, doubled: 0 },
  )
  console.log('\nfaults:')
  for (const [kind, count] of Object.entries(faults.counts).sort()) console.log(`  ${kind}: ${count}`)
  console.log(`  worker calls: ${network.calls}, lost ${network.lost}, doubled ${network.doubled}`)
  console.log(`  failpoints that killed: ${faults.failpointsHit.size} (Core has ${failpointNames().length})`)
  console.log(`after healing all jobs had ended within ${drainSeconds.toFixed(1)} s`)
  for (const violation of violations.slice(0, 50)) console.log(`VIOLATION ${violation}`)
  const { lost_claims: lostClaims, ...rest } = counts ?? {}
  const all = { ...rest, kills: faults.kills, lost_claims: lostClaims, violations: violations.length }
  console.log(
    Object.entries(all)
      .map(([name, count]) => `${name.replace('_', ' ')} ${count}`)
      .join(', '),
  )
  return violations.length === 0
}

async function main(): Promise<boolean> {
  if (values.mutants) return runMutants(values.only)
  if (values.model !== undefined)
    return (await runTests(['test/integration/model.test.ts'], { PLATEN_MODEL_RUNS: values.model })).passes
  if (values.interleavings) {
    return (await runTests(['test/integration/interleavings.test.ts'], { PLATEN_EVERY_SCHEDULE: '1' })).passes
  }
  const seconds = Number(values.seconds ?? 60)
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31))
  if (!(seconds > 0) || !Number.isInteger(seed)) {
    console.error(
      'usage: npm run soak -- --seconds N [--seed S] | --model N | --interleavings | --mutants [--only TEXT]',
    )
    process.exit(2)
  }
  return soak(seconds, seed)
}

process.exit((await main()) ? 0 : 1)
