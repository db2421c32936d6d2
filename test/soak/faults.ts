import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { repositoryRoot, trackedFiles } from '../support/repository.ts'
import { limits, type Member, type SoakStack } from './stack.ts'

/** The steps of Core by name, read from its sources, so that a new one is killed at too. */
export function failpointNames(): string[] {
  const sources = trackedFiles('server/src/contexts/**/*.ts').map((file) =>
    readFileSync(join(repositoryRoot, file), 'utf8'),
  )
  const steps = sources.flatMap((text) =>
    [...text.matchAll(/\.transaction\(\s*'([a-z-]+)'/g)].map((match) => match[1] ?? ''),
  )
  const calls = [
    'open-session',
    'acquire',
    'report-phase',
    'stage-result',
    'complete-claim',
    'fail-claim',
    'release-claim',
  ]
  const transfers = sources.flatMap((text) =>
    [...text.matchAll(/hit\('([a-z-]+\.[a-z-]+)'/g)].map((match) => match[1] ?? ''),
  )
  const rare = ['create-principal', 'grant-access', 'revoke-access', 'delete-project', 'delete-file', 'update-project']
  return [
    ...[...steps, ...calls]
      .filter((name) => !rare.includes(name))
      .flatMap((name) => [`${name}.before-commit`, `${name}.after-commit`]),
    ...transfers,
  ]
}

const workerFailpoints = ['acquire', 'phase', 'staging', 'complete', 'fail', 'upload', 'download'].flatMap((call) =>
  call === 'download' ? ['download.before-send'] : [`${call}.before-send`, `${call}.after-answer`],
)

/** Does, again and again, one of the things that happen to processes, connections and networks. */
export class Faults {
  readonly counts: Record<string, number> = {}
  readonly failpointsHit = new Set<string>()
  readonly #stack: SoakStack
  readonly #names = failpointNames()
  readonly #armed = new Map<Member, string>()
  #over = false
  #loop: Promise<void> = Promise.resolve()

  constructor(stack: SoakStack) {
    this.#stack = stack
  }

  get kills(): number {
    return ['kill core', 'kill worker', 'kill postgres', 'failpoint core', 'failpoint worker'].reduce(
      (sum, kind) => sum + (this.counts[kind] ?? 0),
      0,
    )
  }

  start(): void {
    const { random } = this.#stack
    this.#stack.failpointsFor = (member) => {
      const names = member.kind === 'core' ? this.#names : workerFailpoints
      const name = names[Math.floor(random() * names.length)] as string
      this.#armed.set(member, name)
      // Not all, and not at once: who dies at every start does nothing in between that could go wrong.
      if (random() < 0.4) return ''
      return `${name}=kill@${1 + Math.floor(random() * (member.kind === 'core' ? 150 : 50))}`
    }
    for (const proxy of this.#stack.proxies) proxy.faults = { lostRequest: 0.006, lostAnswer: 0.01, doubled: 0.02 }
    for (const member of this.#stack.members) this.#watchFor(member)
    this.#loop = this.#run()
  }

  /** Ends all faults; what is stopped goes on. */
  async heal(): Promise<void> {
    this.#over = true
    await this.#loop
    this.#stack.failpointsFor = () => ''
    for (const proxy of this.#stack.proxies) proxy.faults = { lostRequest: 0, lostAnswer: 0, doubled: 0 }
    // Who still carries a failpoint is replaced by one that does not.
    for (const { child } of this.#stack.members) {
      child?.kill('SIGCONT')
      child?.kill('SIGKILL')
    }
    await sleep(500)
    await Promise.all(this.#stack.members.map(({ ready }) => ready))
  }

  #count(kind: string): void {
    this.counts[kind] = (this.counts[kind] ?? 0) + 1
  }

  /** A process that ended by SIGKILL without our doing ended at its failpoint. */
  #watchFor(member: Member): void {
    let watched = member.child
    const look = setInterval(() => {
      if (this.#over) return clearInterval(look)
      if (member.child === watched) return
      const before = watched
      watched = member.child
      if (before && before.signalCode === 'SIGKILL' && !this.#ours.has(before.pid ?? 0)) {
        this.#count(`failpoint ${member.kind}`)
        this.failpointsHit.add(this.#armed.get(member) ?? '')
      }
    }, 50)
  }
  readonly #ours = new Set<number>()

  async #run(): Promise<void> {
    const { random } = this.#stack
    const kinds: readonly [weight: number, kind: string, act: () => Promise<void>][] = [
      [8, 'kill worker', async () => this.#kill('worker')],
      [2, 'kill core', async () => this.#kill('core')],
      [1, 'kill postgres', () => this.#stack.killDatabase(100 + random() * 1_200)],
      [2, 'pause worker', () => this.#pause('worker', limits.leaseSeconds + 1 + random() * 2)],
      [1, 'pause core', () => this.#pause('core', 1 + random() * 5)],
      [3, 'terminate backends', () => this.#terminate()],
      [2, 'half-open listener', async () => void this.#stack.database.deafenListener(random)],
      [1, 'hold snapshot', () => this.#holdSnapshot(4_000 + random() * 4_000)],
      [1, 'exhaust connections', () => this.#exhaust(1_000 + random() * 1_500)],
    ]
    const total = kinds.reduce((sum, [weight]) => sum + weight, 0)
    while (!this.#over) {
      await sleep(300 + random() * 1_600)
      let dice = random() * total
      const [, kind, act] = kinds.find(([weight]) => {
        dice -= weight
        return dice < 0
      }) as (typeof kinds)[number]
      this.#count(kind)
      await act().catch((error: Error) => this.#count(`not done: ${kind}: ${error.message.slice(0, 60)}`))
    }
  }

  #pick(kind: Member['kind']): Member | undefined {
    const living = this.#stack.members.filter((member) => member.kind === kind && member.child)
    return living[Math.floor(this.#stack.random() * living.length)]
  }

  #kill(kind: Member['kind']): void {
    const child = this.#pick(kind)?.child
    if (!child?.pid) return
    this.#ours.add(child.pid)
    child.kill('SIGKILL')
  }

  /** Goes on by itself; other faults happen meanwhile. */
  async #pause(kind: Member['kind'], seconds: number): Promise<void> {
    const child = this.#pick(kind)?.child
    child?.kill('SIGSTOP')
    setTimeout(() => child?.kill('SIGCONT'), seconds * 1000)
  }

  async #terminate(): Promise<void> {
    await this.#stack.query(
      `SELECT pg_terminate_backend(pid) FROM (
         SELECT pid FROM pg_stat_activity WHERE datname = 'platen' AND pid <> pg_backend_pid() ORDER BY random() LIMIT 4) p`,
    )
  }

  async #holdSnapshot(milliseconds: number): Promise<void> {
    const client = new pg.Client({ connectionString: this.#stack.directUrl })
    client.on('error', () => {})
    await client.connect()
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await client.query('SELECT count(*) FROM processing.job')
    setTimeout(() => void client.end().catch(() => {}), milliseconds)
  }

  async #exhaust(milliseconds: number): Promise<void> {
    const clients = Array.from({ length: 70 }, () => new pg.Client({ connectionString: this.#stack.directUrl }))
    await Promise.allSettled(
      clients.map((client) => {
        client.on('error', () => {})
        return client.connect()
      }),
    )
    await sleep(milliseconds)
    await Promise.allSettled(clients.map((client) => client.end()))
  }
}
