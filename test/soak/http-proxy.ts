import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** How often, of all calls, each fault happens. */
export interface HttpFaults {
  readonly lostRequest: number
  readonly lostAnswer: number
  readonly doubled: number
}

/** Stands between a worker and Core and does to its calls what a network may do. */
export class FaultyProxy {
  readonly #server: Server
  readonly #targetPort: () => number
  readonly #random: () => number
  faults: HttpFaults
  readonly counts = { calls: 0, lostRequests: 0, lostAnswers: 0, doubled: 0 }

  constructor(targetPort: () => number, faults: HttpFaults, random: () => number) {
    this.#targetPort = targetPort
    this.#random = random
    this.faults = faults
    this.#server = createServer((incoming, answer) => void this.#pass(incoming, answer).catch(() => answer.destroy()))
  }

  async open(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return (this.#server.address() as AddressInfo).port
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  async #pass(incoming: IncomingMessage, answer: ServerResponse): Promise<void> {
    this.counts.calls += 1
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk)
    const body = Buffer.concat(chunks)
    const dice = this.#random()
    const { lostRequest, lostAnswer, doubled } = this.faults
    if (dice < lostRequest) {
      this.counts.lostRequests += 1
      answer.destroy()
      return
    }
    const loses = dice < lostRequest + lostAnswer
    const doubles = !loses && dice < lostRequest + lostAnswer + doubled
    if (doubles) {
      this.counts.doubled += 1
      void this.#send(incoming, body, null).catch(() => {})
    }
    const received = await this.#send(incoming, body, answer)
    if (loses) {
      this.counts.lostAnswers += 1
      answer.destroy()
      return
    }
    answer.writeHead(received.status, received.headers)
    answer.end(received.body)
  }

  #send(incoming: IncomingMessage, body: Buffer, answer: ServerResponse | null) {
    return new Promise<{ status: number; headers: Record<string, string>; body: Buffer }>((resolve, reject) => {
      const { method, url, headers } = incoming
      const outgoing = request(
        {
          host: '127.0.0.1',
          port: this.#targetPort(),
          method,
          path: url,
          headers: { ...headers, connection: 'close' },
        },
        (received) => {
          const parts: Buffer[] = []
          received.on('data', (part: Buffer) => parts.push(part))
          received.on('error', reject)
          received.on('end', () => {
            const kept = Object.entries(received.headers).flatMap(([name, value]) =>
              typeof value === 'string' && !['connection', 'transfer-encoding', 'content-length'].includes(name)
                ? [[name, value]]
                : [],
            )
            resolve({
              status: received.statusCode ?? 502,
              headers: Object.fromEntries(kept),
              body: Buffer.concat(parts),
            })
          })
        },
      )
      outgoing.on('error', reject)
      answer?.once('close', () => outgoing.destroy())
      outgoing.end(body)
    })
  }
}
