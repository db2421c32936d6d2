import { closeSync, openSync, renameSync, statSync, writeSync } from 'node:fs'

const tailBytes = 8 * 1024

/**
 * A log file that does not outgrow the disk: past `maxBytes` it becomes `FILE.1`, replacing the one before.
 *
 * @remarks Writes synchronously, so that the lines of a part that dies are there when its end is reported.
 */
export class BoundedLog {
  readonly file: string
  readonly #maxBytes: number
  #descriptor: number
  #size: number
  #tail = ''

  constructor(file: string, maxBytes = 16 * 1024 * 1024) {
    this.file = file
    this.#maxBytes = maxBytes
    this.#descriptor = openSync(file, 'a', 0o600)
    this.#size = statSync(file).size
  }

  write(chunk: Buffer): void {
    if (this.#size + chunk.length > this.#maxBytes && this.#size > 0) this.#rotate()
    writeSync(this.#descriptor, chunk)
    this.#size += chunk.length
    this.#tail = (this.#tail + chunk.toString('utf8')).slice(-tailBytes)
  }

  /** The last `count` lines written by this process. */
  lastLines(count: number): string {
    return this.#tail.trimEnd().split('\n').slice(-count).join('\n')
  }

  close(): void {
    closeSync(this.#descriptor)
  }

  #rotate(): void {
    closeSync(this.#descriptor)
    renameSync(this.file, `${this.file}.1`)
    this.#descriptor = openSync(this.file, 'a', 0o600)
    this.#size = 0
  }
}
