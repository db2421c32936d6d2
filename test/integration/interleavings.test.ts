import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Bench, openBench } from '../support/interleave/engine.ts'
import { type Actor, type Outcome, Schedules } from '../support/interleave/interleaver.ts'
import { expectSound, type Pair, pairs } from '../support/interleave/pairs.ts'

/** `npm run soak -- --interleavings` takes every schedule and a thousand free runs. */
const every = process.env.PLATEN_EVERY_SCHEDULE === '1'
const sampled = 25
const freeRuns = every ? 1_000 : 10

/** Whatever happens at once, and statement by statement in whatever order, ends as if it had happened one after the other. */
describe('things that happen at once', () => {
  let bench: Bench
  beforeAll(async () => {
    bench = await openBench()
  })
  afterAll(() => bench[Symbol.asyncDispose]())

  async function run({ prepare }: Pair, choose: (free: number) => Actor): Promise<Outcome> {
    await bench.clear()
    const { first, second, check } = await prepare(bench)
    const outcome = await bench.interleaver.run(first, second, choose)
    try {
      await check(outcome)
      await expectSound(bench)
      expect(bench.interleaver.deadlocks, 'deadlocks').toBe(0)
    } catch (error) {
      ;(error as Error).message += `\n  in this order:\n  ${outcome.trace.join('\n  ')}`
      throw error
    }
    return outcome
  }

  describe.each(pairs)('$name', (pair) => {
    it('are right one after the other, in both orders', async () => {
      await run(pair, () => 0)
      await run(pair, () => 1)
    })

    if (every) {
      it('are right in every order of their statements', { timeout: 3_600_000 }, async () => {
        let count = 0
        for (const schedules = new Schedules(); !schedules.done; count += 1)
          schedules.advance((await run(pair, schedules.choose)).choices)
        console.log(`${pair.name}: ${count} schedules`)
        expect(count).toBeGreaterThan(1)
      })
    } else {
      it(`are right in ${sampled} orders of their statements`, () =>
        fc.assert(
          fc.asyncProperty(fc.infiniteStream(fc.constantFrom<Actor>(0, 1)), async (choices) => {
            await run(pair, () => choices.next().value as Actor)
          }),
          { numRuns: sampled, endOnFailure: true },
        ))
    }

    it(`are right when nothing orders them, ${freeRuns} times`, { timeout: 3_600_000 }, async () => {
      for (let count = 0; count < freeRuns; count += 1) {
        await bench.clear()
        const { first, second, check } = await pair.prepare(bench)
        const results = (await Promise.allSettled([first(), second()])) as unknown as Outcome['results']
        // Checks that ask for the order of steps find none, and are made elsewhere.
        if (pair.name !== 'a drain and a claim' && !pair.name.startsWith('a renewal and'))
          await check({ results, choices: [], trace: [] })
        await expectSound(bench)
      }
    })
  })
})
