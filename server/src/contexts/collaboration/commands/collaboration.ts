import type { Database, Reader, Transaction } from '../../../platform/database.ts'
import { describeText, newState, replaceText } from '../domain/document.ts'
import * as documents from '../store/documents.ts'
import * as frozenTexts from '../store/frozen-texts.ts'

/** Accepted updates and their projection to text. Callers hold the project fence where a method takes a transaction. */
export class Collaboration {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /**
   * Accepts `text` as the document's whole content and projects it in the same transaction.
   *
   * @returns whether anything changed
   */
  async writeText(transaction: Transaction, projectId: string, id: string, text: string): Promise<boolean> {
    const projection = describeText(text)
    const state = await documents.findState(transaction, id)
    if (state) {
      const [current] = await documents.findDigests(transaction, [id])
      if (current?.sha256 === projection.sha256) return false
    }
    const next = state ? replaceText(state, text) : newState(text)
    await documents.upsert(transaction, { id, projectId, state: next, ...projection })
    return true
  }

  digests(reader: Reader, ids: readonly string[]): Promise<readonly documents.DocumentDigest[]> {
    return documents.findDigests(reader, ids)
  }

  bytesOfProject(reader: Reader, projectId: string): Promise<number> {
    return documents.sumBytes(reader, projectId)
  }

  text(reader: Reader, id: string): Promise<string | null> {
    return documents.findText(reader, id)
  }

  remove(transaction: Transaction, id: string): Promise<unknown> {
    return documents.remove(transaction, id)
  }

  removeOfProject(transaction: Transaction, projectId: string): Promise<unknown> {
    return documents.removeOfProject(transaction, projectId)
  }

  /** Keeps the present texts of these documents readable for `holder`, whatever happens to the documents. */
  freeze(transaction: Transaction, holder: string, documentIds: readonly string[]): Promise<unknown> {
    return frozenTexts.freeze(transaction, holder, documentIds)
  }

  frozenText(sha256: string): Promise<string | null> {
    return frozenTexts.findText(this.#database.pool, sha256)
  }

  unfreeze(transaction: Transaction, holder: string): Promise<unknown> {
    return frozenTexts.unpin(transaction, holder)
  }

  sweep(graceSeconds: number): Promise<number> {
    return frozenTexts.sweep(this.#database.pool, graceSeconds)
  }
}
