import { createHash, randomUUID } from 'node:crypto'
import { type Claim, protocolBase } from '@platen/worker/protocol'

export interface WorkerAnswer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: a test reads what it expects
  readonly body: any
  readonly headers: Headers
}

const operation = 'latex.compile.pdf/v1'

/** Speaks the worker protocol by hand, one call at a time, so that a test can send what an agent never would. */
export class WorkerClient {
  #url: string
  readonly #workerToken: string
  sessionId = ''
  sessionToken = ''

  constructor(url: string, workerToken: string) {
    this.#url = url
    this.#workerToken = workerToken
  }

  /** The session goes on with another Core. */
  moveTo(url: string): void {
    this.#url = url
  }

  async post(
    path: string,
    body: unknown,
    { key = randomUUID(), token = this.sessionToken }: { key?: string | null; token?: string } = {},
  ): Promise<WorkerAnswer> {
    const response = await fetch(`${this.#url}${protocolBase}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${token}`,
        ...(key === null ? {} : { 'idempotency-key': key }),
      },
      body: JSON.stringify(body),
    })
    return { status: response.status, body: await response.json(), headers: response.headers }
  }

  async open({
    slots = 2,
    instanceId = randomUUID(),
    key = randomUUID(),
    token = this.#workerToken,
    executor = 'bubblewrap',
  } = {}): Promise<WorkerAnswer> {
    const processor = {
      operation,
      name: 'test',
      version: '1',
      contract: 'c'.repeat(64),
      slots,
      facts: { engines: ['pdflatex'] },
    }
    const answer = await this.post(
      '/sessions',
      { instance_id: instanceId, executor, processors: [processor] },
      { key, token },
    )
    if (answer.status === 201) {
      this.sessionId = answer.body.session_id
      this.sessionToken = answer.body.session_token
    }
    return answer
  }

  acquire({ permits = 1, wait = 10, key = randomUUID() } = {}): Promise<WorkerAnswer> {
    return this.post(
      `/sessions/${this.sessionId}/acquire`,
      { processor: operation, permits, expires_in: wait },
      { key },
    )
  }

  /** Waits for one claim. */
  async claim(): Promise<Claim> {
    const { body } = await this.acquire()
    const [claim] = body.claims
    if (!claim) throw new Error('no claim came')
    return claim
  }

  of(claim: Claim, call: string, body: unknown = {}, key = randomUUID()): Promise<WorkerAnswer> {
    return this.post(`/claims/${claim.claim_id}/${call}`, body, { key })
  }

  get(ticket: string, token = this.sessionToken): Promise<Response> {
    return fetch(`${this.#url}${ticket}`, { headers: { authorization: `Bearer ${token}` } })
  }

  async put(ticket: string, bytes: Buffer): Promise<WorkerAnswer> {
    return this.send(ticket, new Uint8Array(bytes))
  }

  /** Sends bytes as they come. */
  async send(ticket: string, bytes: Uint8Array<ArrayBuffer> | AsyncIterable<Uint8Array>): Promise<WorkerAnswer> {
    const response = await fetch(`${this.#url}${ticket}`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${this.sessionToken}`, 'content-type': 'application/octet-stream' },
      body: bytes as BodyInit,
      duplex: 'half',
    } as RequestInit)
    return { status: response.status, body: await response.json(), headers: response.headers }
  }

  /** Declares a result file. */
  declare(claim: Claim, role: string, bytes: Buffer, more: Record<string, unknown> = {}): Promise<WorkerAnswer> {
    const mediaType = { pdf: 'application/pdf', log: 'text/plain', synctex: 'application/gzip' }[role]
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    return this.of(claim, 'staging', { role, media_type: mediaType, byte_length: bytes.length, sha256, ...more })
  }

  /** Declares and uploads. */
  async stage(claim: Claim, role: string, bytes: Buffer): Promise<void> {
    const { body } = await this.declare(claim, role, bytes)
    const stored = await this.put(body.ticket, bytes)
    if (stored.status !== 200) throw new Error(`the upload was refused: ${stored.body.detail}`)
  }

  /** Stages a PDF and delivers it. */
  async deliver(claim: Claim, pdf: Buffer = smallPdf): Promise<WorkerAnswer> {
    await this.stage(claim, 'pdf', pdf)
    return this.of(claim, 'complete', { roles: ['pdf'], diagnostics: [] })
  }

  fail(claim: Claim, failureClass: string, more: Record<string, unknown> = {}): Promise<WorkerAnswer> {
    return this.of(claim, 'fail', {
      failure_class: failureClass,
      message: 'It failed.',
      limit: null,
      diagnostics: [],
      roles: [],
      ...more,
    })
  }
}

/** One empty page, with a right cross-reference table. */
export const smallPdf: Buffer = (() => {
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 100] >>',
  ]
  let text = '%PDF-1.4\n'
  const offsets = objects.map((object, index) => {
    const offset = text.length
    text += `${index + 1} 0 obj\n${object}\nendobj\n`
    return offset
  })
  const start = text.length
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n`
  for (const offset of offsets) text += `${String(offset).padStart(10, '0')} 00000 n \n`
  return Buffer.from(`${text}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`)
})()
