import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'
import { type ProjectRole, projectRoles } from '../domain/policy.ts'

const roleRow = z.object({ role: z.enum(projectRoles) })

export const findRole = (reader: Reader, projectId: string, principalId: string): Promise<ProjectRole | null> =>
  reader.maybeOneFirst(sql.type(roleRow)`
    SELECT role FROM access.project_grant WHERE project_id = ${projectId} AND principal_id = ${principalId}`)

export const findRoles = (
  reader: Reader,
  projectIds: readonly string[],
  principalId: string,
): Promise<readonly { projectId: string; role: ProjectRole }[]> =>
  reader.any(sql.type(roleRow.extend({ projectId: z.uuid() }))`
    SELECT project_id AS "projectId", role
    FROM access.project_grant
    WHERE project_id = ANY (${sql.array([...projectIds], 'uuid')}) AND principal_id = ${principalId}`)

export const listProjectIds = (reader: Reader, principalId: string): Promise<readonly string[]> =>
  reader.anyFirst(sql.type(z.object({ projectId: z.uuid() }))`
    SELECT project_id AS "projectId" FROM access.project_grant WHERE principal_id = ${principalId}`)

export const upsert = (
  transaction: Transaction,
  grant: { projectId: string; principalId: string; role: ProjectRole },
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO access.project_grant (project_id, principal_id, role)
    VALUES (${grant.projectId}, ${grant.principalId}, ${grant.role})
    ON CONFLICT (project_id, principal_id) DO UPDATE SET role = excluded.role`)

export const remove = (transaction: Transaction, projectId: string, principalId: string): Promise<unknown> =>
  transaction.query(sql.unsafe`
    DELETE FROM access.project_grant WHERE project_id = ${projectId} AND principal_id = ${principalId}`)

export const countOwners = (transaction: Transaction, projectId: string, except: string): Promise<number> =>
  transaction.oneFirst(sql.type(z.object({ count: z.int() }))`
    SELECT count(*) AS count
    FROM access.project_grant
    WHERE project_id = ${projectId} AND role = 'owner' AND principal_id <> ${except}`)
