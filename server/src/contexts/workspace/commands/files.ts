import type { Transaction } from '../../../platform/database.ts'
import { NotFoundError, ValidationError, type ValidationIssue } from '../../../platform/errors.ts'
import { newId } from '../../../platform/ids.ts'
import { ancestors, collisionIssue, normalizePath, pathKey } from '../domain/project-tree.ts'
import * as files from '../store/files.ts'
import * as projects from '../store/projects.ts'
import * as uploads from '../store/uploads.ts'
import type { WorkspaceParts } from './context.ts'
import type { Projects } from './projects.ts'

/** A file as people and captures see it, whoever keeps its content. */
export interface ProjectFile {
  readonly id: string
  readonly projectId: string
  readonly path: string
  readonly kind: 'document' | 'asset'
  readonly byteLength: number
  readonly sha256: string
  readonly updatedAt: Date
}

type Content =
  | { kind: 'document'; text: string; byteLength: number }
  | { kind: 'asset'; sha256: string; byteLength: number }

/** Changes to a project's tree, each one transaction under the project's fence. */
export class Files {
  readonly #parts: WorkspaceParts
  readonly #projects: Projects

  constructor(parts: WorkspaceParts, project: Projects) {
    this.#parts = parts
    this.#projects = project
  }

  /** @throws {NotFoundError} @throws {ValidationError} */
  writeDocument(viewerId: string, projectId: string, path: string, text: string): Promise<ProjectFile> {
    const byteLength = Buffer.byteLength(text)
    if (text.includes('\u0000') || !text.isWellFormed()) {
      throw invalid(['text'], 'invalid', `"${path}" has NUL characters or half characters. Upload it as an asset.`)
    }
    if (byteLength > this.#parts.limits.documentBytes) {
      throw invalid(
        ['files', path],
        'too_large',
        `"${path}" has ${byteLength} bytes; a document may have ${this.#parts.limits.documentBytes}. Upload it as an asset.`,
      )
    }
    return this.#change(viewerId, projectId, (transaction) =>
      this.#put(transaction, projectId, path, { kind: 'document', text, byteLength }),
    )
  }

  /**
   * Makes the bytes of a finished upload the content of a file. The upload may serve again until it expires.
   *
   * @throws {NotFoundError} @throws {ValidationError}
   */
  writeAsset(viewerId: string, projectId: string, path: string, uploadId: string): Promise<ProjectFile> {
    return this.#change(viewerId, projectId, async (transaction) => {
      const upload = await uploads.find(transaction, uploadId)
      if (!upload || upload.principalId !== viewerId) {
        throw invalid(
          ['uploadId'],
          'not_found',
          'No such upload, or it expired. Create another and send the bytes again.',
        )
      }
      if (!upload.stored)
        throw invalid(
          ['uploadId'],
          'not_found',
          'The bytes of this upload have not arrived yet. PUT them to its URL first.',
        )
      const { sha256, byteLength } = upload
      return this.#put(transaction, projectId, path, { kind: 'asset', sha256, byteLength })
    })
  }

  /** @throws {NotFoundError} @throws {ValidationError} */
  move(viewerId: string, projectId: string, from: string, to: string): Promise<ProjectFile> {
    return this.#change(viewerId, projectId, async (transaction) => {
      const file = await this.#existing(transaction, projectId, from)
      const path = sound(to)
      const there = await files.findByKey(transaction, projectId, pathKey(path))
      if (there && there.id !== file.id) throw new ValidationError([collisionIssue(path, there.path)])
      // Out of the way first: a file may move below or above its own old name.
      await files.remove(transaction, file.id)
      await this.#refuseCollision(transaction, projectId, path)
      const moved =
        file.kind === 'asset'
          ? { kind: 'asset' as const, sha256: file.assetSha256 as string, byteLength: file.assetByteLength as number }
          : { kind: 'document' as const }
      const row = await files.upsert(transaction, { id: file.id, projectId, path, key: pathKey(path), ...moved })
      await projects.bumpGeneration(transaction, projectId)
      return row
    })
  }

  /** @returns the deleted path @throws {NotFoundError} @throws {ValidationError} if there is no such file */
  async remove(viewerId: string, projectId: string, path: string): Promise<string> {
    const { access, blobs, collaboration, database } = this.#parts
    return database.transaction('delete-file', async (transaction) => {
      await access.require(transaction, viewerId, 'project:write', projectId)
      await this.#projects.lock(transaction, projectId)
      const file = await this.#existing(transaction, projectId, path)
      if (file.kind === 'asset') await blobs.release(transaction, `asset:${file.id}`)
      else await collaboration.remove(transaction, file.id)
      await files.remove(transaction, file.id)
      await projects.bumpGeneration(transaction, projectId)
      return file.path
    })
  }

  /** All files of these projects, sorted by path; the caller has checked access. */
  async list(projectIds: readonly string[]): Promise<readonly ProjectFile[]> {
    const rows = await files.listOfProjects(this.#parts.database.pool, projectIds)
    return this.#described(rows)
  }

  async #change(
    viewerId: string,
    projectId: string,
    change: (transaction: Transaction) => Promise<files.FileRow>,
  ): Promise<ProjectFile> {
    const { access, database } = this.#parts
    const row = await database.transaction('change-file', async (transaction) => {
      await access.require(transaction, viewerId, 'project:write', projectId)
      await this.#projects.lock(transaction, projectId)
      return change(transaction)
    })
    const [file] = await this.#described([row])
    if (!file) throw new NotFoundError('No file')
    return file
  }

  async #put(transaction: Transaction, projectId: string, given: string, content: Content): Promise<files.FileRow> {
    const { blobs, collaboration } = this.#parts
    const path = sound(given)
    const key = pathKey(path)
    const there = await files.findByKey(transaction, projectId, key)
    if (there && there.path !== path) throw new ValidationError([collisionIssue(path, there.path)])
    if (!there) await this.#refuseCollision(transaction, projectId, path)
    await this.#refuseExcess(transaction, projectId, path, content.byteLength, there)

    const id = there?.id ?? newId()
    const row = { id, projectId, path, key }
    if (content.kind === 'asset') {
      if (there?.kind === 'asset' && there.assetSha256 === content.sha256) return there
      if (there?.kind === 'document') await collaboration.remove(transaction, id)
      await blobs.release(transaction, `asset:${id}`)
      await blobs.hold(transaction, `asset:${id}`, [content.sha256])
      await projects.bumpGeneration(transaction, projectId)
      return files.upsert(transaction, {
        ...row,
        kind: 'asset',
        sha256: content.sha256,
        byteLength: content.byteLength,
      })
    }
    if (there?.kind === 'asset') await blobs.release(transaction, `asset:${id}`)
    const changed = await collaboration.writeText(transaction, projectId, id, content.text)
    if (there?.kind === 'document' && !changed) return there
    await projects.bumpGeneration(transaction, projectId)
    return files.upsert(transaction, { ...row, kind: 'document' })
  }

  async #existing(transaction: Transaction, projectId: string, path: string): Promise<files.FileRow> {
    const normalized = normalizePath(path)
    const file = 'path' in normalized ? await files.findByKey(transaction, projectId, pathKey(normalized.path)) : null
    if (!file || file.path !== path.normalize('NFC'))
      throw invalid(['path', path.slice(0, 200)], 'not_found', `The project has no file "${path.slice(0, 200)}".`)
    return file
  }

  async #refuseCollision(transaction: Transaction, projectId: string, path: string): Promise<void> {
    const folders = ancestors(path)
    const wanted = { key: pathKey(path), folders, folderKeys: folders.map(pathKey) }
    const there = await files.findCollision(transaction, projectId, wanted)
    if (there !== null) throw new ValidationError([collisionIssue(path, there)])
  }

  async #refuseExcess(
    transaction: Transaction,
    projectId: string,
    path: string,
    byteLength: number,
    replaced: files.FileRow | null,
  ): Promise<void> {
    const { limits, collaboration } = this.#parts
    const { count, assetBytes } = await files.measure(transaction, projectId)
    if (!replaced && count >= limits.projectFiles) {
      throw invalid(['files', path], 'too_large', `A project may have ${limits.projectFiles} files. Delete some first.`)
    }
    const total = assetBytes + (await collaboration.bytesOfProject(transaction, projectId))
    // What is replaced frees its bytes; a document's are small and not looked up for it.
    if (total - (replaced?.assetByteLength ?? 0) + byteLength > limits.projectBytes) {
      throw invalid(
        ['files', path],
        'too_large',
        `With "${path}" the project would have more than ${limits.projectBytes} bytes. Delete files first.`,
      )
    }
  }

  async #described(rows: readonly files.FileRow[]): Promise<readonly ProjectFile[]> {
    const documents = rows.filter((row) => row.kind === 'document').map((row) => row.id)
    const digests =
      documents.length > 0 ? await this.#parts.collaboration.digests(this.#parts.database.pool, documents) : []
    const byId = new Map(digests.map((digest) => [digest.id, digest]))
    return rows
      .flatMap((row) => {
        const { sha256, byteLength } =
          row.kind === 'asset'
            ? { sha256: row.assetSha256, byteLength: row.assetByteLength }
            : (byId.get(row.id) ?? { sha256: null, byteLength: null })
        // A document deleted between the two reads has no digest any more.
        if (sha256 === null || byteLength === null) return []
        const { id, projectId, path, kind, updatedAt } = row
        return [{ id, projectId, path, kind, updatedAt, sha256, byteLength }]
      })
      .sort((a, b) => (a.path < b.path ? -1 : 1))
  }
}

function sound(given: string): string {
  const normalized = normalizePath(given)
  if ('issue' in normalized) throw new ValidationError([normalized.issue])
  return normalized.path
}

const invalid = (path: readonly string[], code: ValidationIssue['code'], message: string): ValidationError =>
  new ValidationError([{ path, code, message }])
