import { closeSync, copyFileSync, openSync, readSync, statSync, truncateSync } from 'node:fs'

const tailBytes = 8 * 1024

/**
 * A file that a child process appends to by itself, so that it can log, and die, without its launcher.
 *
 * @remarks {@link bound} has to be called now and then: past `maxBytes` the file is copied to `FILE.1`, replacing the one
 * before, and emptied. A line written between the two steps is lost.
 */
export class LogFile {
  readonly path: string
  /** For the child's `stdio`; to be closed when the child has been spawned. */
  readonly descriptor: number
  readonly #maxBytes: number
  /** Where this start's lines begin. */
  #start: number

  constructor(path: string, maxBytes = 16 * 1024 * 1024) {
    this.path = path
    this.#maxBytes = maxBytes
    this.descriptor = openSync(path, 'a', 0o600)
    this.#start = statSync(path).size
    this.bound()
  }

  close(): void {
    closeSync(this.descriptor)
  }

  bound(): void {
    if (this.#size() <= this.#maxBytes) return
    copyFileSync(this.path, `${this.path}.1`)
    truncateSync(this.path)
    this.#start = 0
  }

  /** The last `count` lines of this start. */
  lastLines(count: number): string {
    return this.#tail().slice(-count).join('\n')
  }

  /** What was written for people: no JSON, none of Node's own warnings. */
  plainLines(): string {
    return this.#tail()
      .filter((line) => !/^\{|^\(node:\d+\)|^\(Use `node /.test(line))
      .join('\n')
  }

  /** Somebody may have removed the file; that is no reason to stop. */
  #size(): number {
    return statSync(this.path, { throwIfNoEntry: false })?.size ?? 0
  }

  #tail(): string[] {
    const end = this.#size()
    const begin = Math.max(this.#start, end - tailBytes)
    if (begin >= end) return []
    const bytes = Buffer.alloc(end - begin)
    const descriptor = openSync(this.path, 'r')
    try {
      readSync(descriptor, bytes, 0, bytes.length, begin)
    } finally {
      closeSync(descriptor)
    }
    return bytes.toString('utf8').trim().split('\n')
  }
}
