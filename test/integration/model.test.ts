import fc from 'fast-check'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { commands, rareCommands } from '../support/model/commands.ts'
import { Model } from '../support/model/model.ts'
import { Real } from '../support/model/real.ts'

/** `npm run soak -- --model N` asks for more. */
const runs = Number(process.env.PLATEN_MODEL_RUNS ?? 60)
/** Whoever only wants to know whether they agree does not wait for the shortest sequence. */
const endOnFailure = process.env.PLATEN_MODEL_SHRINK === '0'
const seed = process.env.PLATEN_MODEL_SEED === undefined ? undefined : Number(process.env.PLATEN_MODEL_SEED)

/**
 * Core and PostgreSQL do, step by step, what a model of a hundred lines does: submissions, claims, renewals, deliveries,
 * failures, cancellations, replays, lost sessions, the passing of time, and Core ending in between.
 */
describe('the engine and its model', () => {
  let real: Real
  beforeAll(async () => {
    real = await Real.start()
  })
  afterAll(() => real[Symbol.asyncDispose]())

  const agree = (numRuns: number, given: typeof commands, maxCommands: number) =>
    fc.assert(
      fc.asyncProperty(fc.commands(given, { maxCommands, size: 'max' }), async (steps) => {
        await real.reset()
        await fc.asyncModelRun(() => ({ model: new Model(), real }), steps)
      }),
      { numRuns, endOnFailure, ...(seed === undefined ? {} : { seed }) },
    )

  it(`agree after every step of any sequence, in ${runs} sequences`, { timeout: 3_600_000 }, () =>
    agree(runs, commands, 60),
  )

  it('agree also when Core ends in between', { timeout: 3_600_000 }, () =>
    agree(Math.ceil(runs / 6), [...rareCommands, ...rareCommands.slice(-1), ...rareCommands.slice(-1)], 40),
  )
})
