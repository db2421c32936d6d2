import { createHash, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { ApiClient } from '../support/platen/api-client.ts'
import type { SoakStack } from './stack.ts'
import { type SoakTask, writeTask } from './task.ts'

/** One submission as its client lived it. */
export interface Story {
  readonly key: string
  readonly requester: string
  readonly task: SoakTask
  /** Every job id that an answer to this key ever named. */
  readonly jobIds: Set<string>
  /** States of the job as answers to cancellations named them. */
  readonly cancellations: { readonly state: string; readonly cancelRequested: boolean }[]
  /** The last state that was seen. */
  last: { version: number; state: string } | null
  /** What should never have been seen. */
  readonly violations: string[]
  downloads: number
}

const users = 8
const finals = ['SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED']
const patienceMilliseconds = 120_000

interface Account {
  readonly token: string
  readonly id: string
}

/** Clients that write, submit, cancel, watch and download, and note whatever they are told. */
export class Load {
  readonly stories: Story[] = []
  readonly #stack: SoakStack
  readonly #accounts: Account[] = []
  #stopped = false
  #running: Promise<void>[] = []

  constructor(stack: SoakStack) {
    this.#stack = stack
  }

  async prepare(): Promise<void> {
    const client = new pg.Client({ connectionString: this.#stack.directUrl })
    await client.connect()
    for (let index = 0; index < users; index += 1) {
      const account = { id: randomUUID(), token: `pl_${createHash('sha256').update(randomUUID()).digest('base64url')}` }
      await client.query('INSERT INTO access.principal (id, name) VALUES ($1, $2)', [account.id, `user ${index}`])
      await client.query(
        `INSERT INTO access.api_token (id, principal_id, token_sha256, label) VALUES (gen_random_uuid(), $1, $2, 'soak')`,
        [account.id, createHash('sha256').update(account.token).digest('hex')],
      )
      this.#accounts.push(account)
    }
    await client.end()
  }

  start(clients: number): void {
    this.#running = Array.from({ length: clients }, (_, index) => this.#client(index))
  }

  /** No new submissions; resolves when every client has seen the end of its jobs, or has waited too long. */
  async drain(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#running)
  }

  async #client(index: number): Promise<void> {
    const account = this.#accounts[index % users] as Account
    const projectId = await this.#insist(() => this.#api(account).newProject())
    for (let round = 0; !this.#stopped; round += 1) {
      const task = this.#task(`m-${index}-${round}`)
      await this.#insist(async () => {
        const written = await this.#api(account).write(projectId, 'main.tex', writeTask(task))
        if (written.__typename !== 'WriteDocumentPayload') throw new Error(`not written: ${JSON.stringify(written)}`)
      })
      const count = 1 + Math.floor(this.#stack.random() * 3)
      await Promise.all(Array.from({ length: count }, () => this.#live(account, projectId, task)))
    }
  }

  #task(marker: string): SoakTask {
    const { random } = this.#stack
    const dice = random()
    const milliseconds = Math.floor(dice < 0.02 ? 3_000 + random() * 4_000 : 20 + random() * 200)
    const outcome = random()
    return { marker, milliseconds, outcome: outcome < 0.8 ? 'good' : outcome < 0.9 ? 'rejected' : 'transient' }
  }

  async #live(account: Account, projectId: string, task: SoakTask): Promise<void> {
    const { random } = this.#stack
    const story: Story = {
      key: randomUUID(),
      requester: account.id,
      task,
      jobIds: new Set(),
      cancellations: [],
      last: null,
      violations: [],
      downloads: 0,
    }
    this.stories.push(story)
    const submit = () =>
      this.#insist(async () => {
        const answer = await this.#api(account).build(projectId, { idempotencyKey: story.key })
        if (answer.__typename === 'QuotaExceededError') {
          if (!(answer.retryAfterSeconds >= 1)) story.violations.push('a quota error without a retry-after')
          throw new Error('full')
        }
        if (answer.__typename !== 'BuildProjectPayload') throw new Error(`not accepted: ${JSON.stringify(answer)}`)
        story.jobIds.add(answer.job.id)
        return answer.job.id as string
      })
    const [jobId] = await Promise.all(random() < 0.2 ? [submit(), submit()] : [submit()])
    const cancelling = random() < 0.15 ? this.#cancel(account, jobId, story) : Promise.resolve()
    await this.#watch(account, jobId, story)
    await cancelling
    if (story.last?.state === 'SUCCEEDED') await this.#download(account, jobId, story)
    // The key still stands for the same job.
    if (random() < 0.1) await submit()
  }

  async #cancel(account: Account, jobId: string, story: Story): Promise<void> {
    await sleep(this.#stack.random() * 600)
    await this.#insist(async () => {
      const { job } = await this.#api(account).cancel(jobId)
      if (!job) throw new Error('not answered')
      story.cancellations.push({ state: job.state, cancelRequested: job.cancelRequested })
    })
  }

  async #watch(account: Account, jobId: string, story: Story): Promise<void> {
    const end = performance.now() + patienceMilliseconds + (this.#stopped ? 0 : 600_000)
    while (!finals.includes(story.last?.state ?? '') && performance.now() < end) {
      const cut = AbortSignal.timeout(8_000)
      try {
        for await (const { version: text, state } of until(cut, this.#api(account).watch(jobId))) {
          const version = Number(text)
          const { last } = story
          if (last && version < last.version) story.violations.push(`version ${version} after ${last.version}`)
          if (last && finals.includes(last.state) && state !== last.state)
            story.violations.push(`${state} after ${last.state}`)
          story.last = { version, state }
        }
      } catch {
        await sleep(100 + this.#stack.random() * 300)
      }
    }
  }

  async #download(account: Account, jobId: string, story: Story): Promise<void> {
    await this.#insist(async () => {
      const api = this.#api(account)
      const job = await api.job(jobId)
      if (!job) throw new Error('not answered')
      for (const { role, downloadUrl, sha256 } of job.artifacts) {
        const response = await fetch(new URL(downloadUrl, api.url), { signal: AbortSignal.timeout(10_000) })
        if (response.status !== 200) throw new Error(`download ${response.status}`)
        const bytes = Buffer.from(await response.arrayBuffer())
        if (createHash('sha256').update(bytes).digest('hex') !== sha256)
          story.violations.push(`the ${role} is not what its digest says`)
        if (!bytes.toString('latin1').includes(story.task.marker))
          story.violations.push(`the ${role} is somebody else's`)
        story.downloads += 1
      }
      if (!job.artifacts.some(({ role }: { role: string }) => role === 'PDF'))
        story.violations.push('succeeded without a PDF')
    })
  }

  #api(account: Account): ApiClient {
    return new ApiClient(this.#stack.url, account.token, account.id)
  }

  /** Repeats until it is answered: what was not answered may have happened or not. */
  async #insist<T>(ask: () => Promise<T>): Promise<T> {
    for (let tried = 1; ; tried += 1) {
      try {
        return await ask()
      } catch (error) {
        if (tried > 400) throw error
        await sleep(50 + this.#stack.random() * 400)
      }
    }
  }
}

/** The values of a stream until a signal aborts, even when the stream is silent. */
async function* until<T>(signal: AbortSignal, values: AsyncGenerator<T>): AsyncGenerator<T> {
  const cut = new Promise<never>((_resolve, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  )
  cut.catch(() => {})
  try {
    for (;;) {
      const next = await Promise.race([values.next(), cut])
      if (next.done) return
      yield next.value
    }
  } finally {
    void values.return(undefined).catch(() => {})
  }
}
