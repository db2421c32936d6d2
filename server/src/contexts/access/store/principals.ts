import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

export const principalRow = z.object({ id: z.uuid(), name: z.string() })
export type Principal = z.infer<typeof principalRow>

export const findByTokenDigest = (reader: Reader, digest: string): Promise<(Principal & { tokenId: string }) | null> =>
  reader.maybeOne(sql.type(principalRow.extend({ tokenId: z.uuid() }))`
    SELECT principal.id, principal.name, api_token.id AS "tokenId"
    FROM access.api_token
    JOIN access.principal ON principal.id = api_token.principal_id
    WHERE api_token.token_sha256 = ${digest}
      AND api_token.revoked_at IS NULL
      AND (api_token.expires_at IS NULL OR api_token.expires_at > now())`)

/** At most one write a minute a token: its use is a fact for people, not a counter. */
export const touchToken = (reader: Reader, tokenId: string): Promise<unknown> =>
  reader.query(sql.unsafe`
    UPDATE access.api_token
    SET last_used_at = now()
    WHERE id = ${tokenId} AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')`)

export const find = (reader: Reader, id: string): Promise<Principal | null> =>
  reader.maybeOne(sql.type(principalRow)`SELECT id, name FROM access.principal WHERE id = ${id}`)

export const insert = (transaction: Transaction, principal: Principal): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO access.principal (id, name) VALUES (${principal.id}, ${principal.name}) ON CONFLICT (id) DO NOTHING`)

export const insertToken = (
  transaction: Transaction,
  token: { id: string; principalId: string; digest: string; label: string; expiresAt: Date | null },
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    INSERT INTO access.api_token (id, principal_id, token_sha256, label, expires_at)
    VALUES (${token.id}, ${token.principalId}, ${token.digest}, ${token.label}, ${token.expiresAt?.toISOString() ?? null}::timestamptz)
    ON CONFLICT (token_sha256) DO NOTHING`)

export const revokeOtherTokensWithLabel = (
  transaction: Transaction,
  principalId: string,
  label: string,
  keepDigest: string,
): Promise<unknown> =>
  transaction.query(sql.unsafe`
    UPDATE access.api_token
    SET revoked_at = now()
    WHERE principal_id = ${principalId} AND label = ${label} AND token_sha256 <> ${keepDigest} AND revoked_at IS NULL`)
