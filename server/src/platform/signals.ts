import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { Logger } from 'pino'

const channel = 'platen'
/** PostgreSQL refuses a payload of 8,000 bytes and more. */
const payloadBytes = 7_500
const flushMilliseconds = 5
const reconnectMilliseconds = 500
const pingMilliseconds = 10_000
/** A canary that is not heard back within this time means that the connection is dead, whatever the socket says. */
const canaryPatienceMilliseconds = 5_000

/** @param count how often the topic was announced; 0 when that is not known, because the connection was lost meanwhile */
type Listener = (count: number) => void

export interface Signals {
  /** Tells listeners of a topic, in every replica, that its state changed. Call it after the commit. */
  announce(topic: string): void
  /** @returns what ends the subscription */
  subscribe(topic: string, listener: Listener): () => void
}

/**
 * Wake-ups between replicas over LISTEN/NOTIFY. They carry no state and may be lost; a listener re-reads what it
 * watches, and after a lost connection every listener is called once, so nothing can be missed.
 *
 * @remarks NOTIFY takes a database-wide lock at commit, therefore announcements are batched and sent apart from the
 * transactions that caused them.
 */
export class PostgresSignals implements Signals {
  readonly #url: string
  readonly #log: Logger
  readonly #origin = randomUUID().slice(0, 8)
  readonly #listeners = new Map<string, Set<Listener>>()
  readonly #outgoing = new Map<string, number>()
  #flushTimer: NodeJS.Timeout | null = null
  #client: pg.Client | null = null
  #closed = false
  #sending: Promise<unknown> = Promise.resolve()

  constructor(url: string, log: Logger) {
    this.#url = url
    this.#log = log
  }

  async open(): Promise<void> {
    await this.#connect()
  }

  async close(): Promise<void> {
    this.#closed = true
    if (this.#flushTimer) clearTimeout(this.#flushTimer)
    await this.#flush()
    await this.#client?.end().catch(() => {})
  }

  announce(topic: string): void {
    this.#deliver(topic, 1)
    this.#outgoing.set(topic, (this.#outgoing.get(topic) ?? 0) + 1)
    this.#flushTimer ??= setTimeout(() => void this.#flush(), flushMilliseconds)
  }

  subscribe(topic: string, listener: Listener): () => void {
    const listeners = this.#listeners.get(topic) ?? new Set()
    this.#listeners.set(topic, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#listeners.get(topic) === listeners) this.#listeners.delete(topic)
    }
  }

  #deliver(topic: string, count: number): void {
    for (const listener of [...(this.#listeners.get(topic) ?? [])]) listener(count)
  }

  async #flush(): Promise<void> {
    this.#flushTimer = null
    const topics = [...this.#outgoing].map(([topic, count]) => (count === 1 ? topic : `${topic}*${count}`))
    this.#outgoing.clear()
    for (const payload of inPayloads(this.#origin, topics)) {
      try {
        if (this.#client) await this.#notify(this.#client, payload)
      } catch (error) {
        this.#log.warn(
          { err: error },
          'other replicas were not told of a change; they will find it when they next look',
        )
      }
    }
  }

  async #connect(): Promise<void> {
    const client = new pg.Client({ connectionString: this.#url, connectionTimeoutMillis: 10_000, keepAlive: true })
    client.on('error', () => {})
    client.on('notification', ({ payload }) => this.#receive(payload ?? ''))
    await client.connect()
    await client.query(`LISTEN ${channel}`)
    this.#client = client
    // A connection that a firewall dropped, or one that only listens no more, says nothing by itself.
    let heard = performance.now()
    client.on('notification', () => {
      heard = performance.now()
    })
    const ping = setInterval(() => {
      const sent = performance.now()
      void this.#notify(client, this.#origin).catch(() => cut(client))
      setTimeout(() => {
        if (heard < sent && this.#client === client) cut(client)
      }, canaryPatienceMilliseconds).unref()
    }, pingMilliseconds)
    client.once('end', () => {
      clearInterval(ping)
      if (!this.#closed && this.#client === client) void this.#reconnect()
    })
  }

  /** One statement at a time. */
  #notify(client: pg.Client, payload: string): Promise<unknown> {
    const sent = this.#sending.then(() => client.query('SELECT pg_notify($1, $2)', [channel, payload]))
    this.#sending = sent.catch(() => {})
    return sent
  }

  async #reconnect(): Promise<void> {
    this.#client = null
    // A statement of the lost connection may never be answered.
    this.#sending = Promise.resolve()
    this.#log.warn('the connection that listens for changes was lost')
    while (!this.#closed) {
      await new Promise((resolve) => setTimeout(resolve, reconnectMilliseconds * (0.5 + Math.random())))
      try {
        await this.#connect()
        this.#log.info('listening for changes again')
        for (const topic of [...this.#listeners.keys()]) this.#deliver(topic, 0)
        return
      } catch (error) {
        this.#log.warn({ err: error }, 'cannot listen for changes yet')
      }
    }
  }

  #receive(payload: string): void {
    const [origin, ...topics] = payload.split(' ')
    if (origin === this.#origin) return
    for (const each of topics) {
      const [topic = '', count = '1'] = each.split('*')
      this.#deliver(topic, Number(count))
    }
  }
}

/** Ends a connection without waiting for the other side, which may be gone. */
function cut(client: pg.Client): void {
  const { connection } = client as unknown as { connection: { stream: { destroy(): void } } }
  connection.stream.destroy()
}

/** Topics have no spaces and no asterisks: they are joined by the ones and counted after the others. */
function* inPayloads(origin: string, topics: readonly string[]): Generator<string> {
  let payload = origin
  for (const topic of topics) {
    if (payload.length + topic.length + 1 > payloadBytes) {
      yield payload
      payload = origin
    }
    payload += ` ${topic}`
  }
  if (payload !== origin) yield payload
}
