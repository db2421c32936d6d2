import { BlobMismatchError, BlobTooLargeError } from '../../../platform/blobs/blob-store.ts'
import { QuotaExceededError, ValidationError } from '../../../platform/errors.ts'
import { newId } from '../../../platform/ids.ts'
import * as uploads from '../store/uploads.ts'
import type { WorkspaceParts } from './context.ts'

const openUploadsPerPrincipal = 1_000

export type StoreOutcome =
  | { readonly kind: 'stored' }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'refused'; readonly status: 400 | 413 | 422; readonly message: string }

export class Uploads {
  readonly #parts: WorkspaceParts

  constructor(parts: WorkspaceParts) {
    this.#parts = parts
  }

  /** @throws {ValidationError} past the size limit @throws {QuotaExceededError} with too many unfinished ones */
  async create(
    viewerId: string,
    declared: { byteLength: number; sha256: string },
  ): Promise<{ id: string; url: string; expiresAt: Date }> {
    const { database, limits, uploadTickets } = this.#parts
    if (declared.byteLength > limits.uploadBytes) {
      const message = `${declared.byteLength} bytes are too many: one file may have ${limits.uploadBytes}.`
      throw new ValidationError([{ path: ['byteLength'], code: 'too_large', message }])
    }
    if ((await uploads.countOpen(database.pool, viewerId)) >= openUploadsPerPrincipal) {
      throw new QuotaExceededError('Too many uploads are open. Finish some, or wait until they expire.', 60)
    }
    const seconds = limits.uploadTicketSeconds
    const upload = await uploads.insert(database.pool, { id: newId(), principalId: viewerId, seconds, ...declared })
    return {
      id: upload.id,
      url: `/uploads/${uploadTickets.mint({ upload: upload.id }, seconds)}`,
      expiresAt: upload.expiresAt,
    }
  }

  /** Takes the bytes that a ticket stands for. The same bytes may come again. */
  async store(ticket: string, source: AsyncIterable<Uint8Array>): Promise<StoreOutcome> {
    const { blobs, database, limits, uploadTickets } = this.#parts
    const right = uploadTickets.open(ticket)
    const upload = right && (await uploads.find(database.pool, right.upload))
    if (!upload) return { kind: 'unknown' }
    try {
      const expected = { sha256: upload.sha256, byteLength: upload.byteLength }
      await blobs.write(source, { maxBytes: limits.uploadBytes, expected })
    } catch (error) {
      if (error instanceof BlobTooLargeError) return { kind: 'refused', status: 413, message: error.message }
      if (error instanceof BlobMismatchError) {
        return { kind: 'refused', status: error.what === 'length' ? 400 : 422, message: error.message }
      }
      throw error
    }
    const stored = await database.transaction('store-upload', async (transaction) => {
      if (!(await uploads.markStored(transaction, upload.id))) return false
      await blobs.hold(transaction, `upload:${upload.id}`, [upload.sha256])
      return true
    })
    return stored ? { kind: 'stored' } : { kind: 'unknown' }
  }

  async sweep(): Promise<number> {
    const { blobs, database } = this.#parts
    return database.transaction('sweep-uploads', async (transaction) => {
      const gone = await uploads.removeExpired(transaction)
      for (const id of gone) await blobs.release(transaction, `upload:${id}`)
      return gone.length
    })
  }
}
