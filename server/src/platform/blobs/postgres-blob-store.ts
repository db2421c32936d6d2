import { createHash, type Hash } from 'node:crypto'
import { once } from 'node:events'
import { finished } from 'node:stream/promises'
import type pg from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { z } from 'zod'
import type { Limits } from '../../config/limits.ts'
import { type Database, sql, type Transaction } from '../database.ts'
import { newId } from '../ids.ts'
import {
  BlobMismatchError,
  BlobMissingError,
  type BlobStore,
  type BlobSweep,
  BlobTooLargeError,
  type ReadOptions,
  type StoredBlob,
  type WriteOptions,
} from './blob-store.ts'
import { copyHeader, copyRowHead, copyTrailer, readCopiedBytes } from './copy-binary.ts'

const chunkBytes = 1 << 20
/** Chunks read in one COPY: between windows a slow reader holds no connection. */
const windowChunks = 8

const sha256Pattern = /^[0-9a-f]{64}$/
const blobRow = z.object({ contentId: z.uuid(), byteLength: z.int() })

/** Blobs in PostgreSQL, in 1 MiB rows moved by COPY, so that no process holds a whole blob in memory. */
export class PostgresBlobStore implements BlobStore {
  readonly #database: Database
  readonly #limits: Pick<Limits, 'blobGraceSeconds' | 'blobWriteSeconds'>

  constructor(database: Database, limits: Pick<Limits, 'blobGraceSeconds' | 'blobWriteSeconds'>) {
    this.#database = database
    this.#limits = limits
  }

  async write(source: AsyncIterable<Uint8Array>, { maxBytes, expected }: WriteOptions): Promise<StoredBlob> {
    const chunks = inChunks(source, Math.min(maxBytes, expected?.byteLength ?? maxBytes), maxBytes, expected)
    const hash = createHash('sha256')
    const first = await nextChunk(chunks, hash)
    const second = first === null ? null : await nextChunk(chunks, hash)
    if (second === null) return this.#writeSmall(first ?? Buffer.alloc(0), hash, expected)
    return this.#writeLarge([first as Buffer, second], chunks, hash, expected)
  }

  async #writeSmall(data: Buffer, hash: Hash, expected: StoredBlob | undefined): Promise<StoredBlob> {
    const stored = verified(hash, data.length, expected)
    await this.#database.bytes.query(
      `WITH added AS (
         INSERT INTO blob.blob (sha256, content_id, byte_length) VALUES ($1, $2, $3)
         ON CONFLICT (sha256) DO UPDATE SET touched_at = now()
         RETURNING content_id
       )
       INSERT INTO blob.chunk (content_id, seq, data)
       SELECT content_id, 0, $4 FROM added WHERE content_id = $2 AND $3 > 0`,
      [stored.sha256, newId(), stored.byteLength, data],
    )
    return stored
  }

  async #writeLarge(
    head: Buffer[],
    rest: AsyncGenerator<Buffer>,
    hash: Hash,
    expected: StoredBlob | undefined,
  ): Promise<StoredBlob> {
    const contentId = newId()
    const client = await this.#database.bytes.connect()
    let broken: Error | undefined
    try {
      await client.query('INSERT INTO blob.writing (content_id) VALUES ($1)', [contentId])
      try {
        const byteLength = await copyChunks(client, contentId, withHead(head, rest, hash))
        const stored = verified(hash, byteLength, expected)
        await this.#adopt(client, contentId, stored)
        return stored
      } catch (error) {
        await discard(client, contentId)
        throw error
      }
    } catch (error) {
      broken = error as Error
      throw error
    } finally {
      client.release(broken !== undefined && !isOurs(broken))
    }
  }

  /** Makes the copied chunks a blob, or drops them if the same bytes are stored already. */
  async #adopt(client: pg.PoolClient, contentId: string, stored: StoredBlob): Promise<void> {
    await client.query('BEGIN')
    const { rows } = await client.query<{ content_id: string }>(
      `INSERT INTO blob.blob (sha256, content_id, byte_length) VALUES ($1, $2, $3)
       ON CONFLICT (sha256) DO UPDATE SET touched_at = now()
       RETURNING content_id`,
      [stored.sha256, contentId, stored.byteLength],
    )
    if (rows[0]?.content_id !== contentId)
      await client.query('DELETE FROM blob.chunk WHERE content_id = $1', [contentId])
    await client.query('DELETE FROM blob.writing WHERE content_id = $1', [contentId])
    await client.query('COMMIT')
  }

  async *read(sha256: string, { start = 0, end }: ReadOptions = {}): AsyncGenerator<Buffer> {
    if (!sha256Pattern.test(sha256)) throw new BlobMissingError(sha256)
    const blob = await this.#database.pool.maybeOne(sql.type(blobRow)`
      SELECT content_id AS "contentId", byte_length AS "byteLength" FROM blob.blob WHERE sha256 = ${sha256}`)
    if (!blob) throw new BlobMissingError(sha256)
    const stop = Math.min(end ?? blob.byteLength, blob.byteLength)
    let at = start
    while (at < stop) {
      const firstChunk = Math.floor(at / chunkBytes)
      const lastChunk = Math.min(firstChunk + windowChunks - 1, Math.floor((stop - 1) / chunkBytes))
      const window = await this.#readWindow(blob.contentId, firstChunk, lastChunk)
      let position = firstChunk * chunkBytes
      for (const piece of window) {
        const from = Math.max(at - position, 0)
        const to = Math.min(stop - position, piece.length)
        if (from < to) yield piece.subarray(from, to)
        position += piece.length
      }
      if (position < Math.min((lastChunk + 1) * chunkBytes, stop)) throw new BlobMissingError(sha256)
      at = Math.min(position, stop)
    }
  }

  async #readWindow(contentId: string, first: number, last: number): Promise<Buffer[]> {
    const client = await this.#database.bytes.connect()
    let failed = true
    try {
      // COPY takes no parameters: the id is a uuid from our own row and the bounds are integers.
      const stream = client.query(
        copyTo(
          `COPY (SELECT data FROM blob.chunk WHERE content_id = '${contentId}' AND seq BETWEEN ${first} AND ${last} ORDER BY seq) TO STDOUT (FORMAT binary)`,
        ),
      )
      const pieces: Buffer[] = []
      for await (const piece of readCopiedBytes(stream)) pieces.push(piece)
      failed = false
      return pieces
    } finally {
      client.release(failed)
    }
  }

  async hold(transaction: Transaction, holder: string, sha256s: readonly string[]): Promise<void> {
    if (sha256s.length === 0) return
    await transaction.query(sql.unsafe`
      INSERT INTO blob.reference (holder, sha256)
      SELECT ${holder}, digest FROM unnest(${sql.array([...new Set(sha256s)], 'text')}) AS digest
      ON CONFLICT DO NOTHING`)
  }

  async release(transaction: Transaction, holder: string): Promise<void> {
    await transaction.query(sql.unsafe`
      WITH dropped AS (DELETE FROM blob.reference WHERE holder = ${holder} RETURNING sha256)
      UPDATE blob.blob SET touched_at = now() WHERE sha256 IN (SELECT sha256 FROM dropped)`)
  }

  async sweep(): Promise<BlobSweep> {
    const blobs = await this.#database.pool.oneFirst(sql.type(z.object({ count: z.int() }))`
      WITH candidate AS (
        SELECT sha256
        FROM blob.blob
        WHERE touched_at < now() - make_interval(secs => ${this.#limits.blobGraceSeconds})
          AND NOT EXISTS (SELECT FROM blob.reference WHERE reference.sha256 = blob.sha256)
        LIMIT 100
        FOR UPDATE SKIP LOCKED
      ), gone AS (
        DELETE FROM blob.blob USING candidate
        WHERE blob.sha256 = candidate.sha256
          AND NOT EXISTS (SELECT FROM blob.reference WHERE reference.sha256 = blob.sha256)
        RETURNING content_id
      ), chunks AS (
        DELETE FROM blob.chunk WHERE content_id IN (SELECT content_id FROM gone)
      )
      SELECT count(*) AS count FROM gone`)
    const abandonedWrites = await this.#database.pool.oneFirst(sql.type(z.object({ count: z.int() }))`
      WITH stale AS (
        DELETE FROM blob.writing
        WHERE started_at < now() - make_interval(secs => ${this.#limits.blobWriteSeconds})
        RETURNING content_id
      ), chunks AS (
        DELETE FROM blob.chunk WHERE content_id IN (SELECT content_id FROM stale)
      )
      SELECT count(*) AS count FROM stale`)
    return { blobs, abandonedWrites }
  }
}

async function nextChunk(chunks: AsyncGenerator<Buffer>, hash: Hash): Promise<Buffer | null> {
  const { value, done } = await chunks.next()
  if (done) return null
  hash.update(value)
  return value
}

async function* withHead(head: Buffer[], rest: AsyncGenerator<Buffer>, hash: Hash): AsyncGenerator<Buffer> {
  yield* head
  for await (const chunk of rest) {
    hash.update(chunk)
    yield chunk
  }
}

/** Re-cuts a stream into 1 MiB pieces and stops it as soon as it is longer than it may be. */
async function* inChunks(
  source: AsyncIterable<Uint8Array>,
  stopAt: number,
  maxBytes: number,
  expected: StoredBlob | undefined,
): AsyncGenerator<Buffer> {
  let parts: Uint8Array[] = []
  let size = 0
  let total = 0
  for await (const piece of source) {
    total += piece.length
    if (total > stopAt) {
      if (total > maxBytes) throw new BlobTooLargeError(maxBytes)
      throw new BlobMismatchError('length', `More came than the ${expected?.byteLength} bytes that were declared.`)
    }
    let rest = piece
    while (size + rest.length >= chunkBytes) {
      const take = chunkBytes - size
      yield Buffer.concat([...parts, rest.subarray(0, take)])
      rest = rest.subarray(take)
      parts = []
      size = 0
    }
    if (rest.length > 0) {
      parts.push(rest)
      size += rest.length
    }
  }
  if (size > 0) yield Buffer.concat(parts)
}

async function copyChunks(client: pg.PoolClient, contentId: string, chunks: AsyncGenerator<Buffer>): Promise<number> {
  const stream = client.query(copyFrom('COPY blob.chunk (content_id, seq, data) FROM STDIN (FORMAT binary)'))
  let byteLength = 0
  let seq = 0
  const send = async (data: Buffer): Promise<void> => {
    if (!stream.write(data)) await once(stream, 'drain')
  }
  try {
    await send(copyHeader())
    for await (const chunk of chunks) {
      await send(copyRowHead(contentId, seq, chunk.length))
      await send(chunk)
      byteLength += chunk.length
      seq += 1
    }
    stream.end(copyTrailer())
    await finished(stream)
    return byteLength
  } catch (error) {
    stream.destroy()
    await finished(stream).catch(() => {})
    throw error
  }
}

/** Best effort: what is left here has its `writing` row, and the sweep takes it. */
async function discard(client: pg.PoolClient, contentId: string): Promise<void> {
  try {
    await client.query('ROLLBACK')
    await client.query('DELETE FROM blob.chunk WHERE content_id = $1', [contentId])
    await client.query('DELETE FROM blob.writing WHERE content_id = $1', [contentId])
  } catch {
    // The connection is gone; the caller's error says why.
  }
}

const isOurs = (error: Error): boolean => error instanceof BlobTooLargeError || error instanceof BlobMismatchError

function verified(hash: Hash, byteLength: number, expected: StoredBlob | undefined): StoredBlob {
  const sha256 = hash.digest('hex')
  if (expected && byteLength !== expected.byteLength) {
    throw new BlobMismatchError('length', `${expected.byteLength} bytes were declared and ${byteLength} came.`)
  }
  if (expected && sha256 !== expected.sha256) {
    throw new BlobMismatchError('digest', `The bytes have SHA-256 ${sha256}; ${expected.sha256} was declared.`)
  }
  return { sha256, byteLength }
}
