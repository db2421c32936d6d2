import { setTimeout as sleep } from 'node:timers/promises'
import { PlatenError } from './errors.ts'

/**
 * Named places where a test may make this process wait, fail or die. Every transaction has two, `NAME.before-commit` and
 * `NAME.after-commit`, and so has every transfer of bytes.
 */
export interface Failpoints {
  hit(name: string): Promise<void> | undefined
}

/** What production runs with: nothing happens anywhere. */
export const noFailpoints: Failpoints = { hit: () => undefined }

class FailpointError extends PlatenError {
  override name = 'FailpointError' as const
  code = 'FAILPOINT' as const
}

interface Rule {
  readonly name: string
  readonly act: () => Promise<void>
  /** The hits that pass before it acts. */
  passes: number
  readonly every: boolean
}

/** Thrown or done at a failpoint. */
const acts = {
  kill: () => async () => {
    process.kill(process.pid, 'SIGKILL')
    // The signal is on its way; nothing after this place may run.
    await new Promise(() => {})
  },
  error: (name: string) => async () => {
    throw new FailpointError(`failed on purpose at ${name}`)
  },
  wait: (_name: string, milliseconds: number) => () => sleep(milliseconds),
}

/**
 * Failpoints from text: `claim.after-commit=kill` acts at the first hit and never again, `=kill@3` at the third,
 * `=error*` at each, `=wait:500` waits as many milliseconds; several are joined by commas.
 *
 * @throws {FailpointError} for a text that is not of this form
 */
export function parseFailpoints(text: string): Failpoints {
  const rules: Rule[] = text
    .split(',')
    .filter(Boolean)
    .map((part) => {
      const [, name, act, milliseconds, hit, every] =
        /^([a-z-]+\.[a-z-]+)=(kill|error|wait)(?::(\d+))?(?:@(\d+))?(\*)?$/.exec(part.trim()) ?? []
      if (!name || !act) throw new FailpointError(`"${part}" is not a failpoint such as claim.after-commit=kill@2`)
      const make = acts[act as keyof typeof acts]
      return { name, act: make(name, Number(milliseconds ?? 0)), passes: Number(hit ?? 1) - 1, every: every === '*' }
    })
  return {
    hit(name) {
      const rule = rules.find((each) => each.name === name)
      if (!rule || rule.passes < 0) return undefined
      if (rule.passes > 0) {
        rule.passes -= 1
        return undefined
      }
      if (!rule.every) rule.passes = -1
      return rule.act()
    },
  }
}
