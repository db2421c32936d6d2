import type { Reader, Transaction } from '../../../platform/database.ts'
import { ValidationError } from '../../../platform/errors.ts'
import type { SnapshotDescriptor } from '../domain/snapshot.ts'
import * as files from '../store/files.ts'
import * as snapshots from '../store/snapshots.ts'
import type { WorkspaceParts } from './context.ts'
import type { Projects } from './projects.ts'

/** Frozen projects for jobs. A snapshot pins its bytes until it is released, whatever becomes of the project. */
export class Snapshots {
  readonly #parts: WorkspaceParts
  readonly #projects: Projects

  constructor(parts: WorkspaceParts, projects: Projects) {
    this.#parts = parts
    this.#projects = projects
  }

  /**
   * Takes the fence and freezes what it guards: no byte is moved under it.
   *
   * @throws {NotFoundError} @throws {ValidationError} for a project without files
   */
  async freeze(transaction: Transaction, id: string, projectId: string): Promise<SnapshotDescriptor> {
    const { blobs, collaboration } = this.#parts
    const project = await this.#projects.lock(transaction, projectId)
    const rows = await files.listOfProjects(transaction, [projectId])
    if (rows.length === 0) {
      throw new ValidationError([
        { path: ['files'], code: 'required', message: 'The project has no files yet. Write a document first.' },
      ])
    }
    const documentIds = rows.filter((row) => row.kind === 'document').map((row) => row.id)
    const digests = new Map(
      (await collaboration.digests(transaction, documentIds)).map((digest) => [digest.id, digest]),
    )
    const frozen = rows.map((row) => {
      const { sha256, byteLength } =
        row.kind === 'asset'
          ? { sha256: row.assetSha256, byteLength: row.assetByteLength }
          : (digests.get(row.id) ?? {})
      if (sha256 == null || byteLength == null)
        throw new Error(`file ${row.id} has no content under its project's fence`)
      return { path: row.path, kind: row.kind, sha256, byteLength }
    })
    const descriptor: SnapshotDescriptor = {
      projectType: project.type,
      engine: project.engine,
      entryPath: project.entryPath,
      sourceEpoch: project.sourceEpoch,
      generation: project.generation,
      files: frozen.sort((a, b) => (a.path < b.path ? -1 : 1)),
    }
    await collaboration.freeze(transaction, id, documentIds)
    await blobs.hold(
      transaction,
      `snapshot:${id}`,
      frozen.filter((file) => file.kind === 'asset').map((file) => file.sha256),
    )
    await snapshots.insert(transaction, { id, projectId, descriptor })
    return descriptor
  }

  find(reader: Reader, id: string): Promise<SnapshotDescriptor | null> {
    return snapshots.find(reader, id)
  }

  /** Streams one file of a snapshot that is not released. */
  async *content(file: SnapshotDescriptor['files'][number]): AsyncGenerator<Uint8Array> {
    const { blobs, collaboration } = this.#parts
    if (file.kind === 'asset') {
      yield* blobs.read(file.sha256)
      return
    }
    const text = await collaboration.frozenText(file.sha256)
    if (text === null) throw new Error(`the frozen text ${file.sha256} is gone although a snapshot pins it`)
    yield Buffer.from(text, 'utf8')
  }

  /** Idempotent. */
  async release(transaction: Transaction, id: string): Promise<void> {
    await snapshots.remove(transaction, id)
    await this.#parts.collaboration.unfreeze(transaction, id)
    await this.#parts.blobs.release(transaction, `snapshot:${id}`)
  }

  /** Drops texts that no snapshot pins any more. */
  sweep(): Promise<number> {
    return this.#parts.collaboration.sweep(this.#parts.limits.blobGraceSeconds)
  }
}
