import type { Diagnostic, Job, JobPhase, WaitingReason } from '../types.ts'

/** Text of a document must not steer a terminal. */
export const printable = (text: string): string =>
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is removed
  text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, '\ufffd')

/** As compilers print it: `file:line: message`. */
export function diagnosticLine({ severity, file, line, message }: Diagnostic): string {
  const place = file === null ? '' : line === null ? `${file}: ` : `${file}:${line}: `
  const word = severity === 'ERROR' ? '' : `${severity.toLowerCase()}: `
  return printable(`${place}${word}${message}`.replaceAll('\n', ' '))
}

const phases: Readonly<Record<JobPhase, string>> = {
  CAPTURING_INPUT: 'capturing the project',
  WAITING_FOR_WORKER: 'waiting for a worker',
  PROCESSING: 'compiling',
  UPLOADING_RESULT: 'uploading the result',
  VALIDATING_RESULT: 'validating the result',
  PUBLISHING_RESULT: 'publishing the result',
}

const reasons: Readonly<Record<WaitingReason, string>> = {
  NO_WORKER: 'no worker serves this operation now',
  RETRY_BACKOFF: 'an attempt failed, the next starts in a moment',
  REQUESTER_LIMIT: 'you have as many jobs running as one may',
  PROJECT_LIMIT: 'the project has as many jobs running as one may',
  CAPACITY: 'all workers are busy',
}

/** What an unfinished job is doing, in words. */
export function progressWords(job: Job): string {
  if (job.cancelRequested) return 'stopping'
  const words = job.phase === null ? job.state.toLowerCase() : (phases[job.phase] ?? job.phase.toLowerCase())
  const why = job.waitingReason ? `: ${reasons[job.waitingReason] ?? job.waitingReason.toLowerCase()}` : ''
  const again = job.attempt > 1 ? ` (attempt ${job.attempt})` : ''
  return `${words}${why}${again}`
}

/** One line that shows the present state on a terminal, or a line for each new state elsewhere. */
export class Progress {
  readonly #stream: NodeJS.WriteStream
  readonly #quiet: boolean
  readonly #started = Date.now()
  #words = ''
  #timer: NodeJS.Timeout | undefined

  constructor(stream: NodeJS.WriteStream, { quiet }: { readonly quiet: boolean }) {
    this.#stream = stream
    this.#quiet = quiet
  }

  show(words: string): void {
    if (this.#quiet || words === this.#words) return
    this.#words = words
    if (!this.#stream.isTTY) {
      this.#stream.write(`${printable(words)}\n`)
      return
    }
    this.#draw()
    this.#timer ??= setInterval(() => this.#draw(), 200).unref()
  }

  /** Takes the line away. */
  clear(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    if (this.#words !== '' && this.#stream.isTTY) this.#stream.write('\r\u001b[2K')
    this.#words = ''
  }

  #draw(): void {
    const seconds = ((Date.now() - this.#started) / 1000).toFixed(1)
    this.#stream.write(`\r\u001b[2K${printable(this.#words)} ${seconds} s`)
  }
}
