import { Worker } from 'node:worker_threads'
import type { ArtifactRole } from '@platen/worker/protocol'
import type { PdfReport } from './pdf-worker.ts'

/** A result file, named by its content. */
export interface ResultFile {
  readonly role: ArtifactRole
  readonly sha256: string
}

/** Says what is wrong with a result before it is published. */
export interface Validator {
  /**
   * Looks at a sound file once, however often it is asked about it: equal digests have equal answers.
   *
   * @returns one sentence, or null when the bytes are what their role says
   */
  problemOf(file: ResultFile, read: () => AsyncIterable<Buffer>): Promise<string | null>
}

const remembered = 100
const validationMilliseconds = 20_000
const exhausted = 'opening it exhausted the memory allowed for that.'
const gzipMagic = Buffer.from([0x1f, 0x8b])

/**
 * Validates on a thread of its own: a document made to exhaust the parser costs that thread, not Core. The thread is
 * kept warm and replaced when it dies or takes too long.
 */
export class ThreadValidator implements Validator {
  #thread: Worker | null = null
  #queue: Promise<unknown> = Promise.resolve()
  #closed = false
  readonly #answers = new Map<string, Promise<string | null>>()

  constructor() {
    this.#start()
  }

  problemOf(file: ResultFile, read: () => AsyncIterable<Buffer>): Promise<string | null> {
    const key = `${file.role} ${file.sha256}`
    const known = this.#answers.get(key)
    if (known) return known
    const answer = this.#inspect(file.role, read)
    this.#answers.set(key, answer)
    // A refusal may be of a busy machine: it is given to who waits for it, and looked into again for the next.
    const forget = () => this.#answers.delete(key)
    answer.then((problem) => problem !== null && forget(), forget)
    for (const oldest of this.#answers.keys()) {
      if (this.#answers.size <= remembered) break
      this.#answers.delete(oldest)
    }
    return answer
  }

  async #inspect(role: ArtifactRole, read: () => AsyncIterable<Buffer>): Promise<string | null> {
    if (role === 'pdf') return this.#pdfProblem(read)
    if (role === 'synctex') return startsWith(read(), gzipMagic, 'it is not gzip data.')
    return null
  }

  async close(): Promise<void> {
    this.#closed = true
    await this.#thread?.terminate()
  }

  async #pdfProblem(read: () => AsyncIterable<Buffer>): Promise<string | null> {
    // A thread may die of the document before this one; only dying twice says something about this one.
    const first = await this.#queued(await collected(read()))
    if (first !== 'died') return first
    const second = await this.#queued(await collected(read()))
    return second === 'died' ? exhausted : second
  }

  #queued(parts: readonly Buffer[]): Promise<string | null | 'died'> {
    const bytes = new Uint8Array(Buffer.concat(parts))
    const result = this.#queue.then(() => this.#ask(bytes))
    this.#queue = result.catch(() => {})
    return result
  }

  async #ask(bytes: Uint8Array): Promise<string | null | 'died'> {
    const thread = this.#thread ?? this.#start()
    const report = await new Promise<PdfReport | 'died' | 'slow'>((resolve) => {
      const timer = setTimeout(() => resolve('slow'), validationMilliseconds)
      const die = () => settle('died')
      const settle = (value: PdfReport | 'died') => {
        clearTimeout(timer)
        thread.off('message', settle).off('exit', die)
        resolve(value)
      }
      thread.once('message', settle).once('exit', die)
      thread.postMessage(bytes, [bytes.buffer as ArrayBuffer])
    })
    if (report === 'slow' || report === 'died') {
      this.#thread = null
      await thread.terminate()
      if (!this.#closed) this.#start()
      return report === 'slow' ? 'it could not be opened within 20 seconds.' : 'died'
    }
    if ('error' in report) return `it does not open as a PDF (${report.error}).`
    return report.pages > 0 ? null : 'it has no pages.'
  }

  #start(): Worker {
    const thread = new Worker(new URL('./pdf-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: 1024 },
    })
    thread.on('error', () => {})
    thread.once('exit', () => {
      if (this.#thread === thread) this.#thread = null
    })
    thread.unref()
    this.#thread = thread
    return thread
  }
}

async function collected(bytes: AsyncIterable<Buffer>): Promise<Buffer[]> {
  const parts: Buffer[] = []
  for await (const part of bytes) parts.push(part)
  return parts
}

async function startsWith(bytes: AsyncIterable<Buffer>, magic: Buffer, problem: string): Promise<string | null> {
  for await (const chunk of bytes) return chunk.subarray(0, magic.length).equals(magic) ? null : problem
  return 'it is empty.'
}
