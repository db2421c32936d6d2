/**
 * PostgreSQL's COPY BINARY framing for rows of (uuid, int4, bytea) on the way in and of one bytea on the way out.
 * Format: https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format".
 */

const signature = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1')

export const copyHeader = (): Buffer => Buffer.concat([signature, Buffer.alloc(8)])

export const copyTrailer = (): Buffer => Buffer.from([0xff, 0xff])

/** The head of one chunk row; the chunk's bytes follow it unchanged. */
export function copyRowHead(contentId: string, seq: number, dataLength: number): Buffer {
  const head = Buffer.alloc(2 + 4 + 16 + 4 + 4 + 4)
  head.writeInt16BE(3, 0)
  head.writeInt32BE(16, 2)
  Buffer.from(contentId.replaceAll('-', ''), 'hex').copy(head, 6)
  head.writeInt32BE(4, 22)
  head.writeInt32BE(seq, 26)
  head.writeInt32BE(dataLength, 30)
  return head
}

/** Yields the bytes of the single bytea column of a COPY BINARY stream, however the stream was cut. */
export async function* readCopiedBytes(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let pending: Buffer = Buffer.alloc(0)
  let fieldLeft = 0
  let headerLeft = signature.length + 8
  for await (const piece of source) {
    let at = 0
    if (fieldLeft > 0) {
      const take = Math.min(fieldLeft, piece.length)
      yield piece.subarray(0, take)
      fieldLeft -= take
      at = take
    }
    if (at === piece.length) continue
    pending = pending.length === 0 ? piece.subarray(at) : Buffer.concat([pending, piece.subarray(at)])
    for (;;) {
      if (headerLeft > 0) {
        const take = Math.min(headerLeft, pending.length)
        headerLeft -= take
        pending = pending.subarray(take)
        if (headerLeft > 0) break
      }
      if (pending.length < 2) break
      const fields = pending.readInt16BE(0)
      if (fields === -1) return
      if (pending.length < 6) break
      fieldLeft = pending.readInt32BE(2)
      const take = Math.min(fieldLeft, pending.length - 6)
      if (take > 0) yield pending.subarray(6, 6 + take)
      fieldLeft -= take
      pending = pending.subarray(6 + take)
      if (fieldLeft > 0) break
    }
  }
  if (fieldLeft > 0) throw new Error('the database ended a COPY inside a row')
}
