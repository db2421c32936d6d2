import { canonicalJson } from '@platen/worker/protocol'
import type { Transaction } from '../../../platform/database.ts'
import { sha256Hex } from '../../../platform/ids.ts'
import { WorkerRefusal } from '../errors.ts'
import * as requests from '../store/worker-requests.ts'
import type { ProcessingParts } from './context.ts'

/** One logical call of a worker, whatever number of times it is sent. */
export interface WorkerCall {
  /** Session, or worker instance before there is one. */
  readonly scope: string
  readonly route: string
  readonly key: string
  readonly body: unknown
}

export interface Effect<T> {
  readonly response: T
  /** Runs once, after the commit. */
  readonly after?: () => void
}

/**
 * Runs a call once. Its answer is stored in the transaction of its effect: a lost answer is given again, a concurrent
 * duplicate waits a moment for the first and is then asked to come again, and a transaction that fails leaves no trace, so that its retry runs. Refusals are
 * not stored; they have no effect and are decided anew.
 *
 * @param run returns null to have no effect and store no answer
 * @throws {WorkerRefusal} `idempotency_key_reused` for a changed payload
 */
export async function once<T>(
  { database }: Pick<ProcessingParts, 'database'>,
  call: WorkerCall,
  run: (transaction: Transaction) => Promise<Effect<T> | null>,
): Promise<{ response: T; replayed: boolean } | null> {
  const digest = sha256Hex(canonicalJson(call.body))
  try {
    const { effect, replayed } = await database.transaction(stepOf(call), async (transaction) => {
      if (!(await requests.reserve(transaction, call, digest))) {
        const stored = await requests.find(transaction, call)
        if (stored && stored.digest !== digest) {
          throw new WorkerRefusal(
            'idempotency_key_reused',
            'This idempotency key was used for another request. Use a new key.',
          )
        }
        if (!stored || stored.status === null) {
          throw inUse()
        }
        return { effect: { response: stored.response as T }, replayed: true }
      }
      const effect = await run(transaction)
      if (!effect) throw new NoEffect()
      await requests.store(transaction, call, 200, effect.response)
      return { effect, replayed: false }
    })
    if (!replayed) (effect as Effect<T>).after?.()
    return { response: effect.response, replayed }
  } catch (error) {
    if (error instanceof NoEffect) return null
    if (requests.isLockTimeout(error)) throw inUse()
    throw error
  }
}

const inUse = (): WorkerRefusal =>
  new WorkerRefusal('idempotency_key_in_use', 'The same request is being worked on. Ask again.', 1)

/** Rolls the reservation back. */
class NoEffect extends Error {}

/** `completeClaim …` is the step `complete-claim`. */
const stepOf = ({ route }: WorkerCall): string =>
  (route.split(' ')[0] ?? '').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
