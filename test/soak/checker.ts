import type { Story } from './load.ts'
import { limits, type SoakStack } from './stack.ts'

/** Rows of a table that only grows, written by triggers in the transactions they are about. */
export const historySql = `
  CREATE SCHEMA soak;
  CREATE SEQUENCE soak.seq;
  CREATE TABLE soak.move (n bigint DEFAULT nextval('soak.seq'), job_id uuid, old_state text, new_state text, old_version bigint, new_version bigint);
  CREATE TABLE soak.slot (n bigint DEFAULT nextval('soak.seq'), opened boolean, claim_id uuid, session_id uuid, operation text, requester_id uuid, project_id uuid);
  CREATE FUNCTION soak.note_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO soak.move (job_id, old_state, new_state, old_version, new_version)
    VALUES (NEW.id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.state END, NEW.state, CASE WHEN TG_OP = 'UPDATE' THEN OLD.version END, NEW.version);
    RETURN NULL;
  END $$;
  CREATE FUNCTION soak.note_slot() RETURNS trigger LANGUAGE plpgsql AS $$
  DECLARE s processing.claim_slot; BEGIN
    IF TG_OP = 'INSERT' THEN s := NEW; ELSE s := OLD; END IF;
    INSERT INTO soak.slot (opened, claim_id, session_id, operation, requester_id, project_id)
    VALUES (TG_OP = 'INSERT', s.claim_id, s.session_id, s.operation, s.requester_id, s.project_id);
    RETURN NULL;
  END $$;
  CREATE TRIGGER note_move AFTER INSERT OR UPDATE ON processing.job FOR EACH ROW EXECUTE FUNCTION soak.note_move();
  CREATE TRIGGER note_slot AFTER INSERT OR DELETE ON processing.claim_slot FOR EACH ROW EXECUTE FUNCTION soak.note_slot();`

const terminal = `('succeeded', 'failed', 'cancelled', 'expired')`

/** Each statement lists what may not be; the name says which promise it would break. */
const invariants: readonly (readonly [name: string, statement: string])[] = [
  ['I1 every job ended', `SELECT id, state FROM processing.job WHERE state NOT IN ${terminal}`],
  [
    'I1 one job a key',
    `SELECT requester_id, command, key FROM processing.command_key GROUP BY 1, 2, 3 HAVING count(*) > 1`,
  ],
  [
    'I1 one terminal state a job',
    `SELECT job_id FROM soak.move WHERE new_state IN ${terminal} AND old_state IS DISTINCT FROM new_state
     GROUP BY job_id HAVING count(*) > 1`,
  ],
  ['I2 terminal is for ever', `SELECT * FROM soak.move WHERE old_state IN ${terminal}`],
  [
    'I3 succeeded means published once, from the claim that delivered',
    `SELECT job.id FROM processing.job
     LEFT JOIN processing.publication p ON p.job_id = job.id
     LEFT JOIN processing.attempt a ON a.claim_id = p.claim_id AND a.job_id = job.id
     WHERE (job.state = 'succeeded') <> (p.job_id IS NOT NULL) OR (p.job_id IS NOT NULL AND a.outcome IS DISTINCT FROM 'delivered')`,
  ],
  [
    'I3 no artifact without a publication or an explained failure',
    `SELECT artifact.id FROM processing.artifact JOIN processing.job ON job.id = artifact.job_id
     WHERE job.state NOT IN ('succeeded', 'failed') OR (job.state = 'failed' AND artifact.role <> 'log')`,
  ],
  [
    'I3 bytes are what their digest says',
    `SELECT blob.sha256 FROM blob.blob WHERE encode(sha256(coalesce(
       (SELECT string_agg(data, ''::bytea ORDER BY seq) FROM blob.chunk WHERE chunk.content_id = blob.content_id), ''::bytea)), 'hex') <> blob.sha256`,
  ],
  [
    'I3 no artifact has lost its bytes',
    `SELECT artifact.id FROM processing.artifact
     LEFT JOIN blob.reference r ON r.holder = 'artifact:' || artifact.id AND r.sha256 = artifact.sha256
     LEFT JOIN blob.blob ON blob.sha256 = artifact.sha256 WHERE r.holder IS NULL OR blob.sha256 IS NULL`,
  ],
  [
    'I4 one claim at a time, and none after the end',
    `SELECT a.job_id FROM (
       SELECT o.n AS opened, c.n AS closed, attempt.job_id
       FROM soak.slot o JOIN soak.slot c ON c.claim_id = o.claim_id AND NOT c.opened
       JOIN processing.attempt ON attempt.claim_id = o.claim_id WHERE o.opened
     ) a JOIN (
       SELECT o.n AS opened, c.n AS closed, attempt.job_id
       FROM soak.slot o JOIN soak.slot c ON c.claim_id = o.claim_id AND NOT c.opened
       JOIN processing.attempt ON attempt.claim_id = o.claim_id WHERE o.opened
     ) b ON b.job_id = a.job_id AND b.opened > a.opened AND b.opened < a.closed`,
  ],
  [
    'I4 one delivery a job',
    `SELECT job_id FROM processing.attempt WHERE outcome = 'delivered' GROUP BY job_id HAVING count(*) > 1`,
  ],
  ...(
    [
      ['requester', 'requester_id', limits.activePerRequester],
      ['project', 'project_id', limits.activePerProject],
      ['session', 'session_id', limits.slots],
    ] as const
  ).map(
    ([name, column, most]) =>
      [
        `I5 no more than ${most} active in a ${name}`,
        `SELECT * FROM (
           SELECT ${column}, sum(CASE WHEN opened THEN 1 ELSE -1 END) OVER (PARTITION BY ${column} ORDER BY n) AS active
           FROM soak.slot) x WHERE active > ${most}`,
      ] as const,
  ),
  [
    'I9 versions grow',
    `SELECT * FROM soak.move WHERE new_version < old_version OR (new_state <> old_state AND new_version = old_version)`,
  ],
  ['I10 no staged file is left', 'SELECT * FROM processing.staging'],
  ['I10 no slot is left', 'SELECT * FROM processing.claim_slot'],
  [
    'I10 nobody is left in line',
    'SELECT job_id::text FROM processing.queue_entry UNION ALL SELECT requester_id::text FROM processing.turn',
  ],
  ['I10 no attempt is left open', 'SELECT claim_id FROM processing.attempt WHERE ended_at IS NULL'],
  ['I10 no snapshot is left', 'SELECT id FROM workspace.snapshot'],
  [
    'I10 no reference of a job that ended',
    `SELECT holder FROM blob.reference WHERE holder !~ '^(asset|artifact|upload):'`,
  ],
  [
    'I10 no blob without a holder',
    'SELECT sha256 FROM blob.blob b WHERE NOT EXISTS (SELECT FROM blob.reference r WHERE r.sha256 = b.sha256)',
  ],
  [
    'I10 no bytes without a blob',
    'SELECT DISTINCT content_id FROM blob.chunk c WHERE NOT EXISTS (SELECT FROM blob.blob b WHERE b.content_id = c.content_id)',
  ],
  ['I12 attempts are bounded', 'SELECT id FROM processing.job WHERE attempt_count > attempt_limit'],
  [
    'I12 what can be tried again is, up to the bound',
    `SELECT id FROM processing.job WHERE state = 'failed' AND failure->>'class' IN ('worker_interrupted', 'transient_infrastructure')
     AND attempt_count < attempt_limit`,
  ],
  [
    'I12 what cannot be tried again is not',
    `SELECT a.claim_id FROM processing.attempt a JOIN processing.attempt later ON later.job_id = a.job_id AND later.number > a.number
     WHERE a.failure->>'class' = 'processor_rejected'`,
  ],
]

/** What the clients lived, against what they were promised. */
export function storyViolations(stories: readonly Story[]): string[] {
  return stories.flatMap((story) => {
    const { cancellations, jobIds, last, violations, downloads } = story
    const found = violations.map((violation) => `seen by a client: ${violation}`)
    if (jobIds.size !== 1) found.push(`I7 one key gave ${jobIds.size} jobs`)
    if (!last) found.push('I1 a client never saw its job')
    const state = last?.state ?? 'NONE'
    if (!['SUCCEEDED', 'FAILED', 'CANCELLED', 'EXPIRED'].includes(state))
      found.push(`I1 a client saw no end, only ${state}`)
    for (const cancellation of cancellations) {
      const accepted = cancellation.state === 'CANCELLED' || cancellation.cancelRequested
      if (accepted && state === 'SUCCEEDED') found.push('I8 succeeded after a cancellation was accepted')
      if (['FINALIZING', 'SUCCEEDED'].includes(cancellation.state) && state === 'CANCELLED')
        found.push('I8 cancelled after a delivery was accepted')
    }
    if (state === 'SUCCEEDED' && downloads === 0) found.push('I3 succeeded, and nothing to download')
    if (story.task.outcome === 'rejected' && state === 'SUCCEEDED') found.push('I3 a rejected document succeeded')
    return found.map((text) => `${text} (key ${story.key})`)
  })
}

/** Waits until reapers had their time, at most so long, and lists what is still wrong. */
export async function databaseViolations(stack: SoakStack, patienceMilliseconds: number): Promise<string[]> {
  const end = performance.now() + patienceMilliseconds
  for (;;) {
    const found: string[] = []
    for (const [name, statement] of invariants) {
      const rows = await stack.query(statement)
      if (rows.length > 0) found.push(`${name}: ${rows.length}, such as ${JSON.stringify(rows[0])}`)
    }
    if (found.length === 0 || performance.now() > end) return found
    await new Promise((resolve) => setTimeout(resolve, 1_000))
  }
}
