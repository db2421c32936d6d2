import { canonicalJson } from '@platen/worker/protocol'
import type { Reader, Transaction } from '../../../platform/database.ts'
import {
  IdempotencyConflictError,
  NotFoundError,
  ValidationError,
  type ValidationIssue,
} from '../../../platform/errors.ts'
import { newId, sha256Hex } from '../../../platform/ids.ts'
import { normalizePath } from '../domain/project-tree.ts'
import type { ProjectType } from '../domain/snapshot.ts'
import * as commandKeys from '../store/command-keys.ts'
import * as files from '../store/files.ts'
import * as projects from '../store/projects.ts'
import type { WorkspaceParts } from './context.ts'

export interface NewProject {
  readonly name: string
  readonly type: ProjectType
  readonly settings: projects.ProjectSettings
  readonly idempotencyKey: string
}

export class Projects {
  readonly #parts: WorkspaceParts

  constructor(parts: WorkspaceParts) {
    this.#parts = parts
  }

  /**
   * Creates a project that belongs to `viewerId`; the same key and content again gives the same project.
   *
   * @throws {ValidationError}
   * @throws {IdempotencyConflictError}
   */
  async create(viewerId: string, given: NewProject): Promise<{ project: projects.Project; replayed: boolean }> {
    const settings = checkedSettings(given.type, given.settings)
    const { idempotencyKey, name, type } = given
    const digest = sha256Hex(canonicalJson({ name, type, settings: { ...settings } }))
    const scope = { principalId: viewerId, command: 'createProject', key: idempotencyKey }
    return this.#parts.database.transaction('create-project', async (transaction) => {
      const id = newId()
      if (!(await commandKeys.reserve(transaction, { ...scope, digest, projectId: id }))) {
        const first = await commandKeys.find(transaction, scope)
        if (first.digest !== digest) throw new IdempotencyConflictError(idempotencyKey)
        return { project: await this.#found(transaction, first.projectId), replayed: true }
      }
      const project = await projects.insert(transaction, { id, name, type, ...settings })
      await this.#parts.access.grantOwner(transaction, id, viewerId)
      return { project, replayed: false }
    })
  }

  /** @throws {NotFoundError} @throws {ValidationError} */
  async updateSettings(
    viewerId: string,
    projectId: string,
    given: Partial<projects.ProjectSettings>,
  ): Promise<projects.Project> {
    return this.#parts.database.transaction('update-project', async (transaction) => {
      await this.#parts.access.require(transaction, viewerId, 'project:write', projectId)
      const project = await this.lock(transaction, projectId)
      const { engine, entryPath, sourceEpoch } = { ...project, ...given }
      const settings = checkedSettings(project.type, { engine, entryPath, sourceEpoch })
      return projects.updateSettings(transaction, projectId, settings)
    })
  }

  /** Deletes the project for everyone. Jobs that captured it keep their input until they end; nothing of them is published. */
  async remove(viewerId: string, projectId: string): Promise<void> {
    const { access, blobs, collaboration, database } = this.#parts
    await database.transaction('delete-project', async (transaction) => {
      await access.require(transaction, viewerId, 'project:manage', projectId)
      await this.lock(transaction, projectId)
      for (const file of await files.listOfProjects(transaction, [projectId])) {
        if (file.kind === 'asset') await blobs.release(transaction, `asset:${file.id}`)
        await files.remove(transaction, file.id)
      }
      await collaboration.removeOfProject(transaction, projectId)
      await projects.markDeleted(transaction, projectId)
    })
  }

  /** Those of `ids` that the viewer may see. */
  async visible(viewerId: string, ids: readonly string[]): Promise<readonly projects.Project[]> {
    const { access, database } = this.#parts
    const roles = await access.roles(viewerId, ids)
    return projects.findMany(
      database.pool,
      roles.map((role) => role.projectId),
    )
  }

  async page(viewerId: string, page: projects.Page): Promise<readonly projects.Project[]> {
    const { access, database } = this.#parts
    return projects.page(database.pool, await access.projectsOf(database.pool, viewerId), page)
  }

  /** Takes the fence. @throws {NotFoundError} */
  async lock(transaction: Transaction, projectId: string): Promise<projects.Project> {
    const project = await projects.lock(transaction, projectId)
    if (!project) throw new NotFoundError('No project')
    return project
  }

  /** The project if it stands; it keeps standing until the transaction ends. */
  holdOpen(transaction: Transaction, projectId: string): Promise<projects.Project | null> {
    return projects.lockShared(transaction, projectId)
  }

  sweepKeys(): Promise<unknown> {
    return commandKeys.removeOlderThan(this.#parts.database.pool, this.#parts.limits.commandKeySeconds)
  }

  async #found(reader: Reader, id: string): Promise<projects.Project> {
    const [project] = await projects.findMany(reader, [id])
    if (!project) throw new NotFoundError('No project')
    return project
  }
}

function checkedSettings(type: ProjectType, settings: projects.ProjectSettings): projects.ProjectSettings {
  const issues: ValidationIssue[] = []
  if (type !== 'LATEX' && settings.engine !== null) {
    issues.push({ path: ['settings', 'engine'], code: 'invalid', message: 'Only LaTeX projects have an engine.' })
  }
  let entryPath = settings.entryPath
  if (entryPath !== null) {
    const normalized = normalizePath(entryPath)
    if ('issue' in normalized) issues.push({ ...normalized.issue, path: ['settings', 'entryPath'] })
    else entryPath = normalized.path
  }
  if (issues.length > 0) throw new ValidationError(issues)
  return { engine: settings.engine, entryPath, sourceEpoch: settings.sourceEpoch }
}
