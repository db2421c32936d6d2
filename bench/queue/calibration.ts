import pg from 'pg'
import { median } from '../statistics.ts'
import { type Cluster, connected } from './cluster.ts'

const transactions = 250
/** How much of its speed the machine may gain or lose within a round. */
const tolerance = 1.2

export interface Rounds<T> {
  readonly results: readonly T[]
  readonly rejected: number
  /** Slowest against fastest calibration of each round that counts. */
  readonly drifts: readonly number[]
}

/** How many rounds there were, and what the machine did meanwhile. */
export function describeRounds({ results, rejected, drifts }: Rounds<unknown>): string {
  const unsteady = drifts.filter((drift) => drift > tolerance).length
  const kept = unsteady === 0 ? '' : `, ${unsteady} of them kept although unsteady: there was no time for more`
  return `${results.length} rounds${kept}; ${rejected} rejected; within a round the machine's speed moved by at most ${percent(Math.max(...drifts))}`
}

export interface Calibration extends AsyncDisposable {
  /** Runs rounds; one in which the machine's speed moved too much is given up and another made, while time is to spare. */
  rounds<T>(plan: RoundsPlan, round: (checked: Checked) => Promise<T>): Promise<Rounds<T>>
}

export interface RoundsPlan {
  readonly name: string
  readonly count: number
  /** No round but the first begins later, by `performance.now()`. */
  readonly until: number
}

/** Wraps each block of a round: the machine's speed is measured after it. @throws when it moved and there is time left */
export type Checked = <B>(block: () => Promise<B>) => Promise<B>

class Unsteady extends Error {}

/** @param spareSeconds for rounds that are repeated, over the whole run: it has an end */
export async function startCalibration(cluster: Cluster, spareSeconds: number): Promise<Calibration> {
  let spareMs = spareSeconds * 1000
  const template = await cluster.prepare('bench_calibration', (url) =>
    connected(url, (client) =>
      client.query(`
        CREATE TABLE account (id integer PRIMARY KEY, balance bigint NOT NULL);
        INSERT INTO account SELECT n, 0 FROM generate_series(1, 10000) n;
        CREATE TABLE entry (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account integer, amount integer)`),
    ),
  )
  const database = await cluster.clone(template)
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const measure = async () => {
    const times: number[] = []
    for (let number = 0; number < transactions; number += 1) {
      const account = 1 + ((number * 7919) % 10_000)
      const began = performance.now()
      await client.query('BEGIN')
      await client.query('UPDATE account SET balance = balance + 1 WHERE id = $1', [account])
      await client.query('SELECT balance FROM account WHERE id = $1', [account])
      await client.query('INSERT INTO entry (account, amount) VALUES ($1, 1)', [account])
      await client.query('COMMIT')
      times.push(performance.now() - began)
    }
    return median(times)
  }
  await measure()
  return {
    rounds: async ({ name, count, until }, round) => {
      const results = []
      const drifts: number[] = []
      let rejected = 0
      while (results.length < count && (results.length === 0 || performance.now() < until)) {
        const began = performance.now()
        const speeds = [await measure()]
        const drift = () => Math.max(...speeds) / Math.min(...speeds)
        const checked: Checked = async (block) => {
          const done = await block()
          speeds.push(await measure())
          if (drift() > tolerance && spareMs > 0) throw new Unsteady()
          return done
        }
        try {
          results.push(await round(checked))
          drifts.push(drift())
        } catch (error) {
          if (!(error instanceof Unsteady)) throw error
          rejected += 1
          spareMs -= performance.now() - began
        }
        console.error(`${name}: ${results.length} of ${count} rounds, the machine moved by ${percent(drift())}`)
      }
      return { results, rejected, drifts }
    },
    [Symbol.asyncDispose]: async () => {
      await client.end()
      await database[Symbol.asyncDispose]()
    },
  }
}

const percent = (ratio: number): string => `${((ratio - 1) * 100).toFixed(0)} %`
