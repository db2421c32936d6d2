import { z } from 'zod'
import { type Reader, sql, type Transaction } from '../../../platform/database.ts'

/** Copies inside the database, so that the fence is never held for a text's way to Core and back. */
export const freeze = (transaction: Transaction, holder: string, documentIds: readonly string[]): Promise<unknown> =>
  transaction.query(sql.unsafe`
    WITH chosen AS (
      SELECT DISTINCT ON (sha256) sha256, text
      FROM collaboration.document
      WHERE id = ANY (${sql.array([...documentIds], 'uuid')})
    ), frozen AS (
      INSERT INTO collaboration.frozen_text (sha256, text)
      SELECT sha256, text FROM chosen
      ORDER BY sha256
      ON CONFLICT (sha256) DO UPDATE SET touched_at = now()
      RETURNING sha256
    )
    INSERT INTO collaboration.frozen_text_pin (holder, sha256)
    SELECT ${holder}, sha256 FROM frozen
    ON CONFLICT DO NOTHING`)

export const findText = (reader: Reader, sha256: string): Promise<string | null> =>
  reader.maybeOneFirst(sql.type(z.object({ text: z.string() }))`
    SELECT text FROM collaboration.frozen_text WHERE sha256 = ${sha256}`)

export const unpin = (transaction: Transaction, holder: string): Promise<unknown> =>
  transaction.query(sql.unsafe`DELETE FROM collaboration.frozen_text_pin WHERE holder = ${holder}`)

export const sweep = (reader: Reader, graceSeconds: number): Promise<number> =>
  reader.oneFirst(sql.type(z.object({ count: z.int() }))`
    WITH gone AS (
      DELETE FROM collaboration.frozen_text
      WHERE touched_at < now() - make_interval(secs => ${graceSeconds})
        AND NOT EXISTS (SELECT FROM collaboration.frozen_text_pin WHERE frozen_text_pin.sha256 = frozen_text.sha256)
      RETURNING 1
    )
    SELECT count(*) AS count FROM gone`)
