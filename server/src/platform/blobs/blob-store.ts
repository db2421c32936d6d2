import type { Transaction } from '../database.ts'
import { PlatenError } from '../errors.ts'

export interface StoredBlob {
  /** Lower-case hexadecimal. */
  readonly sha256: string
  readonly byteLength: number
}

export interface WriteOptions {
  /** The write is abandoned as soon as more than this many bytes came. */
  readonly maxBytes: number
  /** What the sender declared; anything else is refused and leaves nothing. */
  readonly expected?: StoredBlob
}

export interface ReadOptions {
  /** First byte, default 0. */
  readonly start?: number
  /** One past the last byte, default the whole. */
  readonly end?: number
}

export interface BlobSweep {
  readonly blobs: number
  readonly abandonedWrites: number
}

/**
 * Immutable bytes by SHA-256, reference-counted by named holders. A blob nobody holds lives for a grace period, so a
 * writer has time to take its reference; then the reaper, never a request, deletes it.
 */
export interface BlobStore {
  /**
   * Streams `source` into the store.
   *
   * @throws {BlobTooLargeError} past `maxBytes`
   * @throws {BlobMismatchError} if length or digest differ from `expected`
   */
  write(source: AsyncIterable<Uint8Array>, options: WriteOptions): Promise<StoredBlob>
  /** @throws {BlobMissingError} if there is no such blob */
  read(sha256: string, options?: ReadOptions): AsyncIterable<Buffer>
  /** Adds references inside the caller's transaction; adding one twice is fine. */
  hold(transaction: Transaction, holder: string, sha256s: readonly string[]): Promise<void>
  /** Drops all references of one holder inside the caller's transaction; dropping none is fine. */
  release(transaction: Transaction, holder: string): Promise<void>
  /** Deletes what nobody holds and writes that never ended. Idempotent; safe on several replicas. */
  sweep(): Promise<BlobSweep>
}

export class BlobTooLargeError extends PlatenError {
  override name = 'BlobTooLargeError' as const
  code = 'BLOB_TOO_LARGE' as const
  readonly maxBytes: number
  constructor(maxBytes: number) {
    super(`More than the ${maxBytes} bytes allowed here.`)
    this.maxBytes = maxBytes
  }
}

export class BlobMismatchError extends PlatenError {
  override name = 'BlobMismatchError' as const
  code = 'BLOB_MISMATCH' as const
  readonly what: 'length' | 'digest'
  constructor(what: 'length' | 'digest', message: string) {
    super(message)
    this.what = what
  }
}

export class BlobMissingError extends PlatenError {
  override name = 'BlobMissingError' as const
  code = 'BLOB_MISSING' as const
  constructor(sha256: string) {
    super(`No blob ${sha256} is stored.`)
  }
}
