-- Why: what every claim call does to hold its claim is one function that compares after it has the locks; a lease outlives a
-- restart of the database; waits, preparations and finalizations that are due are found without reading the queue; a
-- move of a running job stays in its page.
-- Locks: the job, attempt, session and queue tables for a moment, the line for as long as one index takes. A running Core
-- of the version before would not find its indexes: stop it first.

-- When a waiting job gives up. Its own column, so that who is due is found by an index and not by reading the line.
ALTER TABLE processing.queue_entry ADD COLUMN expires_at timestamptz;
UPDATE processing.queue_entry q SET expires_at = j.queue_expires_at FROM processing.job j WHERE j.id = q.job_id;
ALTER TABLE processing.queue_entry ALTER COLUMN expires_at SET NOT NULL;
CREATE INDEX queue_entry_expires ON processing.queue_entry (expires_at);

-- No index of a job names its state or version: claims, phases and cancellations then write no index entry.
DROP INDEX processing.job_unfinished;
UPDATE processing.job SET preparer_expires_at = NULL WHERE state <> 'preparing' AND preparer_expires_at IS NOT NULL
  AND state NOT IN ('succeeded', 'failed', 'cancelled', 'expired');
CREATE INDEX job_preparing ON processing.job (preparer_expires_at)
  WHERE preparer_expires_at IS NOT NULL AND finished_at IS NULL;
CREATE INDEX job_finalizing ON processing.job (finalization_expires_at) WHERE finalization_expires_at IS NOT NULL;
CREATE INDEX job_finished ON processing.job (finished_at) WHERE finished_at IS NOT NULL;
ALTER TABLE processing.job SET (fillfactor = 80);
ALTER TABLE processing.attempt SET (fillfactor = 80);
-- How fast the line moves is asked only when it is full.
CREATE INDEX attempt_started ON processing.attempt USING brin (started_at) WITH (pages_per_range = 16, autosummarize = on);

-- Sessions are few and heard of often: their liveness is in no index.
DROP INDEX processing.session_open;
ALTER TABLE processing.session SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Whether a lease holds. While the database was down nobody could renew one, so each that was not given up (-infinity) has
-- its length anew from the start of the server: a restart of the database repeats no work.
CREATE FUNCTION processing.lease_holds(expires timestamptz, lease_seconds double precision) RETURNS boolean LANGUAGE sql VOLATILE AS
$$ SELECT expires > clock_timestamp()
  OR (expires > '-infinity' AND pg_postmaster_start_time() + make_interval(secs => lease_seconds) > clock_timestamp()) $$;

-- Holds a claim's job and attempt, in this order, and compares only when both are held: a claim that ended or ran out while
-- its caller waited is not held. Returns the job, or null.
CREATE FUNCTION processing.hold_claim(claim uuid, session uuid, lease_seconds double precision) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  held uuid;
  expires timestamptz;
BEGIN
  SELECT a.job_id INTO held FROM processing.attempt a WHERE a.claim_id = claim AND a.session_id = session AND a.ended_at IS NULL;
  IF NOT FOUND THEN RETURN NULL; END IF;
  PERFORM FROM processing.job j WHERE j.id = held FOR NO KEY UPDATE;
  SELECT a.lease_expires_at INTO expires FROM processing.attempt a
  WHERE a.claim_id = claim AND a.session_id = session AND a.ended_at IS NULL FOR NO KEY UPDATE;
  IF NOT FOUND OR NOT processing.lease_holds(expires, lease_seconds) THEN RETURN NULL; END IF;
  RETURN held;
END $$;

-- Keeps a claim from ending until the transaction does, without holding its job: files of one delivery come side by side.
CREATE FUNCTION processing.share_claim(claim uuid, session uuid, lease_seconds double precision) RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
  shared record;
BEGIN
  SELECT a.job_id, a.lease_expires_at INTO shared FROM processing.attempt a
  WHERE a.claim_id = claim AND a.session_id = session AND a.ended_at IS NULL FOR SHARE;
  IF NOT FOUND OR NOT processing.lease_holds(shared.lease_expires_at, lease_seconds) THEN RETURN NULL; END IF;
  RETURN shared.job_id;
END $$;

-- The key of a worker's call, taken or not. A concurrent duplicate is waited for, within reason: then it is 55P03.
CREATE FUNCTION processing.reserve_request(session uuid, route text, key text, digest text) RETURNS boolean LANGUAGE plpgsql
SET lock_timeout = '2s' AS $$
BEGIN
  INSERT INTO processing.worker_request (session_id, route, key, request_digest) VALUES (session, route, key, digest)
  ON CONFLICT DO NOTHING;
  RETURN FOUND;
END $$;

CREATE OR REPLACE FUNCTION processing.enter_queue(job uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  entry record;
  head record;
BEGIN
  SELECT j.id, j.operation, j.requester_id, processing.lane_of(j.project_id) AS project_id, j.seq, j.queue_expires_at
  INTO STRICT entry FROM processing.job j WHERE j.id = job AND j.state = 'queued';
  PERFORM pg_advisory_xact_lock(processing.requester_key(entry.requester_id));
  -- A statement of its own: what was committed while the lock was waited for has to be seen.
  SELECT q.job_id, q.seq INTO head FROM processing.queue_entry q
  WHERE q.operation = entry.operation AND q.requester_id = entry.requester_id AND q.project_id = entry.project_id AND q.lane_head;
  -- A retry keeps its place and may be older than the head of its lane.
  IF head.seq > entry.seq THEN
    UPDATE processing.queue_entry SET lane_head = false WHERE job_id = head.job_id;
  END IF;
  INSERT INTO processing.queue_entry (job_id, operation, requester_id, project_id, seq, lane_head, expires_at)
  VALUES (
    entry.id, entry.operation, entry.requester_id, entry.project_id, entry.seq, head.seq IS NULL OR head.seq > entry.seq,
    entry.queue_expires_at);
  INSERT INTO processing.turn AS t (operation, requester_id, head_seq, depth)
  VALUES (entry.operation, entry.requester_id, entry.seq, 1)
  ON CONFLICT (operation, requester_id) DO UPDATE SET head_seq = least(t.head_seq, excluded.head_seq), depth = t.depth + 1;
END $$;

-- The next job in line for a session: the oldest of those whose requester and project have room. It is found without
-- locks, over one row a requester and one head a lane, and no further than the first that nothing younger can beat. Then
-- what it needs is only tried for, so this path waits for nobody; what another transaction has is passed over. The caller
-- holds its session's processor row. `busy` says that something was passed over so, `session_full` that the session has no
-- slot.
DROP FUNCTION processing.take_next(text, uuid, uuid, integer, integer, integer);
CREATE FUNCTION processing.take_next(
  op text, session uuid, claim uuid, ceiling integer, requester_limit integer, project_limit integer,
  OUT job_id uuid, OUT busy boolean, OUT session_full boolean
) LANGUAGE plpgsql
SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  next_turn record;
  head record;
  best_job uuid;
  best_seq bigint;
  best_requester uuid;
  best_project uuid;
  passed_over uuid[] := '{}';
  session_slot integer;
  requester_slot integer;
  project_slot integer;
BEGIN
  busy := false;
  SELECT slot INTO session_slot FROM generate_series(1, ceiling) AS slot
  WHERE NOT EXISTS (
    SELECT FROM processing.claim_slot c WHERE c.session_id = session AND c.operation = op AND c.session_slot = slot) LIMIT 1;
  session_full := session_slot IS NULL;
  IF session_full THEN RETURN; END IF;
  LOOP
    best_seq := NULL;
    FOR next_turn IN SELECT t.requester_id, t.head_seq FROM processing.turn t WHERE t.operation = op ORDER BY t.head_seq LOOP
      EXIT WHEN next_turn.head_seq >= best_seq;
      CONTINUE WHEN next_turn.requester_id = ANY (passed_over)
        OR processing.free_requester_slot(next_turn.requester_id, requester_limit) IS NULL;
      FOR head IN
        SELECT q.job_id, q.project_id, q.seq FROM processing.queue_entry q
        WHERE q.operation = op AND q.requester_id = next_turn.requester_id AND q.lane_head ORDER BY q.seq
      LOOP
        EXIT WHEN head.seq >= best_seq;
        CONTINUE WHEN head.job_id = ANY (passed_over) OR head.project_id = ANY (passed_over)
          OR processing.free_project_slot(head.project_id, project_limit) IS NULL;
        best_job := head.job_id;
        best_seq := head.seq;
        best_requester := next_turn.requester_id;
        best_project := head.project_id;
        EXIT;
      END LOOP;
    END LOOP;
    IF best_seq IS NULL THEN RETURN; END IF;
    -- The slots are counted again when nobody else can take one.
    IF NOT pg_try_advisory_xact_lock(processing.requester_key(best_requester)) THEN
      busy := true;
      passed_over := passed_over || best_requester;
      CONTINUE;
    END IF;
    requester_slot := processing.free_requester_slot(best_requester, requester_limit);
    CONTINUE WHEN requester_slot IS NULL;
    IF NOT pg_try_advisory_xact_lock(processing.project_key(best_project)) THEN
      busy := true;
      passed_over := passed_over || best_project;
      CONTINUE;
    END IF;
    project_slot := processing.free_project_slot(best_project, project_limit);
    CONTINUE WHEN project_slot IS NULL;
    SELECT j.id INTO job_id FROM processing.job j
    WHERE j.id = best_job AND j.state = 'queued' AND j.queue_expires_at > clock_timestamp()
      AND EXISTS (SELECT FROM processing.queue_entry q WHERE q.job_id = best_job)
    FOR NO KEY UPDATE SKIP LOCKED;
    IF job_id IS NULL THEN
      busy := true;
      passed_over := passed_over || best_job;
      CONTINUE;
    END IF;
    PERFORM processing.take_out(job_id);
    INSERT INTO processing.claim_slot
      (claim_id, session_id, operation, requester_id, project_id, session_slot, requester_slot, project_slot)
    VALUES (claim, session, op, best_requester, best_project, session_slot, requester_slot, project_slot);
    busy := false;
    RETURN;
  END LOOP;
END $$;

-- Requesters of one slice whose turn or lane heads are not what their entries say. Never any, unless this code is wrong.
CREATE FUNCTION processing.unsound_turns(op text, first_requester uuid, last_requester uuid)
RETURNS TABLE (requester_id uuid) LANGUAGE sql STABLE AS $$
  SELECT requester_id
  FROM (
    SELECT t.requester_id, t.head_seq, t.depth FROM processing.turn t
    WHERE t.operation = op AND t.requester_id BETWEEN first_requester AND last_requester
  ) t
  FULL JOIN (
    SELECT q.requester_id, min(q.seq) AS head_seq, count(*) AS depth FROM processing.queue_entry q
    WHERE q.operation = op AND q.requester_id BETWEEN first_requester AND last_requester GROUP BY 1
  ) e USING (requester_id)
  WHERE t.head_seq IS DISTINCT FROM e.head_seq OR t.depth IS DISTINCT FROM e.depth
  UNION
  SELECT q.requester_id FROM processing.queue_entry q
  WHERE q.operation = op AND q.requester_id BETWEEN first_requester AND last_requester
  GROUP BY q.requester_id, q.project_id
  HAVING min(q.seq) IS DISTINCT FROM min(q.seq) FILTER (WHERE q.lane_head) $$;

-- Builds a requester's turn and lane heads anew from their entries.
CREATE FUNCTION processing.repair_turn(op text, requester uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(processing.requester_key(requester));
  UPDATE processing.queue_entry SET lane_head = false WHERE operation = op AND requester_id = requester AND lane_head;
  UPDATE processing.queue_entry SET lane_head = true WHERE job_id IN (
    SELECT DISTINCT ON (q.project_id) q.job_id FROM processing.queue_entry q
    WHERE q.operation = op AND q.requester_id = requester ORDER BY q.project_id, q.seq);
  DELETE FROM processing.turn WHERE operation = op AND requester_id = requester;
  INSERT INTO processing.turn (operation, requester_id, head_seq, depth)
  SELECT op, requester, min(seq), count(*) FROM processing.queue_entry
  WHERE operation = op AND requester_id = requester HAVING count(*) > 0;
END $$;
