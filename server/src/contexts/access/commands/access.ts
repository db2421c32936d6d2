import type { Database, Reader, Transaction } from '../../../platform/database.ts'
import { NotFoundError, ValidationError } from '../../../platform/errors.ts'
import { newId } from '../../../platform/ids.ts'
import { type ProjectAction, type ProjectRole, permits } from '../domain/policy.ts'
import { isApiToken, newApiToken, tokenDigest } from '../domain/tokens.ts'
import * as grants from '../store/grants.ts'
import * as principals from '../store/principals.ts'

export type Viewer = principals.Principal

/** What other contexts and the edges may ask of Access. */
export class Access {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** The principal behind an API token, or null if the token is unknown, expired or revoked. */
  async authenticate(token: string): Promise<Viewer | null> {
    if (!isApiToken(token)) return null
    const found = await principals.findByTokenDigest(this.#database.pool, tokenDigest(token))
    if (!found) return null
    void principals.touchToken(this.#database.pool, found.tokenId).catch(() => {})
    return { id: found.id, name: found.name }
  }

  /** Creates a principal with one token; the token is readable only here. */
  async createPrincipal(name: string, label: string): Promise<{ principal: Viewer; token: string }> {
    const principal = { id: newId(), name }
    const token = newApiToken()
    await this.#database.transaction('create-principal', async (transaction) => {
      await principals.insert(transaction, principal)
      await principals.insertToken(transaction, {
        id: newId(),
        principalId: principal.id,
        digest: tokenDigest(token),
        label,
        expiresAt: null,
      })
    })
    return { principal, token }
  }

  /** Makes `token` the only development token of the one development principal. */
  async ensureDevelopmentToken(token: string): Promise<void> {
    if (!isApiToken(token))
      throw new Error(
        'The development token is not of the form pl_ and 43 characters: remove .platen/token and start again.',
      )
    const principal = { id: '00000000-0000-4000-8000-000000000001', name: 'developer' }
    await this.#database.transaction('ensure-development-token', async (transaction) => {
      await principals.insert(transaction, principal)
      await principals.insertToken(transaction, {
        id: newId(),
        principalId: principal.id,
        digest: tokenDigest(token),
        label: 'development',
        expiresAt: null,
      })
      await principals.revokeOtherTokensWithLabel(transaction, principal.id, 'development', tokenDigest(token))
    })
  }

  async may(reader: Reader, principalId: string, action: ProjectAction, projectId: string): Promise<boolean> {
    return permits(await grants.findRole(reader, projectId, principalId), action)
  }

  /**
   * @returns the role that allowed it
   * @throws {NotFoundError} whether the project is absent or not theirs: both look the same
   */
  async require(reader: Reader, principalId: string, action: ProjectAction, projectId: string): Promise<ProjectRole> {
    const role = await grants.findRole(reader, projectId, principalId)
    if (role === null || !permits(role, 'project:read')) throw new NotFoundError('No project')
    if (!permits(role, action)) {
      throw new ValidationError([
        {
          path: ['projectId'],
          code: 'role_too_weak',
          message: `Your role in this project is ${role}; this needs a stronger one.`,
        },
      ])
    }
    return role
  }

  /** The viewer's roles in those of these projects where there is one. */
  roles(principalId: string, projectIds: readonly string[]) {
    return grants.findRoles(this.#database.pool, projectIds, principalId)
  }

  projectsOf(reader: Reader, principalId: string): Promise<readonly string[]> {
    return grants.listProjectIds(reader, principalId)
  }

  grantOwner(transaction: Transaction, projectId: string, principalId: string): Promise<unknown> {
    return grants.upsert(transaction, { projectId, principalId, role: 'owner' })
  }

  /** @throws {NotFoundError} for an unknown principal */
  async grant(viewerId: string, grant: { projectId: string; principalId: string; role: ProjectRole }): Promise<void> {
    await this.#database.transaction('grant-access', async (transaction) => {
      await this.require(transaction, viewerId, 'project:manage', grant.projectId)
      if (!(await principals.find(transaction, grant.principalId))) throw new NotFoundError('No principal')
      if (grant.role !== 'owner') await this.#keepAnOwner(transaction, grant.projectId, grant.principalId)
      await grants.upsert(transaction, grant)
    })
  }

  async revoke(viewerId: string, projectId: string, principalId: string): Promise<void> {
    await this.#database.transaction('revoke-access', async (transaction) => {
      await this.require(transaction, viewerId, 'project:manage', projectId)
      await this.#keepAnOwner(transaction, projectId, principalId)
      await grants.remove(transaction, projectId, principalId)
    })
  }

  async #keepAnOwner(transaction: Transaction, projectId: string, except: string): Promise<void> {
    if ((await grants.countOwners(transaction, projectId, except)) === 0) {
      throw new ValidationError([
        {
          path: ['principalId'],
          code: 'last_owner',
          message: 'A project keeps at least one owner. Make someone else owner first.',
        },
      ])
    }
  }
}
