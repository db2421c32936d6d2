-- Why: a claim must cost the same whatever waits before it. The walk goes over one row a requester and one head a lane, so
-- what is blocked is bounded by what runs, not by what waits; limits are slots with unique constraints.
-- Locks: builds small tables from the waiting and running jobs; drops two indexes. A running Core of the version before
-- would not see these tables: stop it first.

-- Jobs that can be claimed now. A job that backs off is not here.
CREATE TABLE processing.queue_entry (
  job_id uuid PRIMARY KEY,
  operation text NOT NULL,
  requester_id uuid NOT NULL,
  -- A lane is one requester's jobs of one project. Jobs without a project share one lane.
  project_id uuid NOT NULL,
  seq bigint NOT NULL,
  lane_head boolean NOT NULL,
  UNIQUE (operation, requester_id, project_id, seq)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX queue_entry_lane_head ON processing.queue_entry (operation, requester_id, project_id) WHERE lane_head;
CREATE INDEX queue_entry_heads ON processing.queue_entry (operation, requester_id, seq) INCLUDE (job_id, project_id) WHERE lane_head;

-- One row for each requester with claimable work: whose turn is next.
CREATE TABLE processing.turn (
  operation text NOT NULL,
  requester_id uuid NOT NULL,
  head_seq bigint NOT NULL,
  depth integer NOT NULL CHECK (depth >= 1),
  PRIMARY KEY (operation, requester_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX turn_order ON processing.turn (operation, head_seq) INCLUDE (requester_id);

-- The slots that open attempts hold. Two attempts can never have one slot, so no limit can be passed.
CREATE TABLE processing.claim_slot (
  claim_id uuid PRIMARY KEY,
  session_id uuid NOT NULL,
  operation text NOT NULL,
  requester_id uuid NOT NULL,
  project_id uuid NOT NULL,
  session_slot integer NOT NULL CHECK (session_slot >= 1),
  requester_slot integer NOT NULL CHECK (requester_slot >= 1),
  project_slot integer NOT NULL CHECK (project_slot >= 1),
  UNIQUE (session_id, operation, session_slot),
  UNIQUE (requester_id, requester_slot),
  UNIQUE (project_id, project_slot)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

DROP INDEX processing.job_claimable;
-- At most as many open attempts as there are slots: found by the other indexes, and a renewal stays in its page.
DROP INDEX processing.attempt_open_lease;
CREATE INDEX job_backing_off ON processing.job (claimable_at) WHERE claimable_at IS NOT NULL;

CREATE FUNCTION processing.lane_of(project uuid) RETURNS uuid LANGUAGE sql IMMUTABLE AS
$$ SELECT coalesce(project, '00000000-0000-0000-0000-000000000000'::uuid) $$;

-- Two people or two projects whose keys collide only wait for each other for a moment.
CREATE FUNCTION processing.requester_key(requester uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT hashtextextended('processing.requester:' || requester, 0) $$;
CREATE FUNCTION processing.project_key(project uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS
$$ SELECT hashtextextended('processing.project:' || project, 0) $$;

-- Puts a queued job in line. The caller holds the job's row; this waits for the requester's lock, in that order.
CREATE FUNCTION processing.enter_queue(job uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  entry record;
  head record;
BEGIN
  SELECT j.id, j.operation, j.requester_id, processing.lane_of(j.project_id) AS project_id, j.seq
  INTO STRICT entry FROM processing.job j WHERE j.id = job AND j.state = 'queued';
  PERFORM pg_advisory_xact_lock(processing.requester_key(entry.requester_id));
  -- A statement of its own: what was committed while the lock was waited for has to be seen.
  SELECT q.job_id, q.seq INTO head FROM processing.queue_entry q
  WHERE q.operation = entry.operation AND q.requester_id = entry.requester_id AND q.project_id = entry.project_id AND q.lane_head;
  -- A retry keeps its place and may be older than the head of its lane.
  IF head.seq > entry.seq THEN
    UPDATE processing.queue_entry SET lane_head = false WHERE job_id = head.job_id;
  END IF;
  INSERT INTO processing.queue_entry (job_id, operation, requester_id, project_id, seq, lane_head)
  VALUES (entry.id, entry.operation, entry.requester_id, entry.project_id, entry.seq, head.seq IS NULL OR head.seq > entry.seq);
  INSERT INTO processing.turn AS t (operation, requester_id, head_seq, depth)
  VALUES (entry.operation, entry.requester_id, entry.seq, 1)
  ON CONFLICT (operation, requester_id) DO UPDATE SET head_seq = least(t.head_seq, excluded.head_seq), depth = t.depth + 1;
END $$;

-- Takes a job out of line and lets the next of its lane move up. The caller holds the requester's lock.
CREATE FUNCTION processing.take_out(job uuid) RETURNS void LANGUAGE plpgsql
SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  gone processing.queue_entry;
  oldest bigint;
BEGIN
  DELETE FROM processing.queue_entry WHERE job_id = job RETURNING * INTO gone;
  IF NOT FOUND THEN RETURN; END IF;
  IF gone.lane_head THEN
    UPDATE processing.queue_entry SET lane_head = true WHERE job_id = (
      SELECT q.job_id FROM processing.queue_entry q
      WHERE q.operation = gone.operation AND q.requester_id = gone.requester_id AND q.project_id = gone.project_id
      ORDER BY q.seq LIMIT 1);
  END IF;
  SELECT q.seq INTO oldest FROM processing.queue_entry q
  WHERE q.operation = gone.operation AND q.requester_id = gone.requester_id AND q.lane_head
  ORDER BY q.seq LIMIT 1;
  IF oldest IS NULL THEN
    DELETE FROM processing.turn WHERE operation = gone.operation AND requester_id = gone.requester_id;
  ELSE
    UPDATE processing.turn SET head_seq = oldest, depth = depth - 1
    WHERE operation = gone.operation AND requester_id = gone.requester_id;
  END IF;
END $$;

-- For whoever ends a waiting job. The caller holds the job's row; this waits for the requester's lock.
CREATE FUNCTION processing.leave_queue(job uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(processing.requester_key(j.requester_id)) FROM processing.job j WHERE j.id = job;
  PERFORM processing.take_out(job);
END $$;

CREATE FUNCTION processing.free_requester_slot(requester uuid, most integer) RETURNS integer LANGUAGE sql AS $$
  SELECT slot FROM generate_series(1, most) AS slot
  WHERE NOT EXISTS (SELECT FROM processing.claim_slot c WHERE c.requester_id = requester AND c.requester_slot = slot) LIMIT 1 $$;
CREATE FUNCTION processing.free_project_slot(project uuid, most integer) RETURNS integer LANGUAGE sql AS $$
  SELECT slot FROM generate_series(1, most) AS slot
  WHERE NOT EXISTS (SELECT FROM processing.claim_slot c WHERE c.project_id = project AND c.project_slot = slot) LIMIT 1 $$;

-- The next job in line for a session: first in, first out among those whose requester and project have room. The caller
-- holds its session's processor row; every lock from here on is only tried for, so this path waits for nobody.
-- `busy` says that something was passed over only because another transaction had it.
CREATE FUNCTION processing.take_next(
  op text, session uuid, claim uuid, ceiling integer, requester_limit integer, project_limit integer,
  OUT job_id uuid, OUT busy boolean
) LANGUAGE plpgsql
SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  next_turn record;
  head record;
  session_slot integer;
  requester_slot integer;
  project_slot integer;
BEGIN
  busy := false;
  SELECT slot INTO session_slot FROM generate_series(1, ceiling) AS slot
  WHERE NOT EXISTS (
    SELECT FROM processing.claim_slot c WHERE c.session_id = session AND c.operation = op AND c.session_slot = slot) LIMIT 1;
  IF session_slot IS NULL THEN RETURN; END IF;
  FOR next_turn IN SELECT t.requester_id FROM processing.turn t WHERE t.operation = op ORDER BY t.head_seq LOOP
    CONTINUE WHEN processing.free_requester_slot(next_turn.requester_id, requester_limit) IS NULL;
    IF NOT pg_try_advisory_xact_lock(processing.requester_key(next_turn.requester_id)) THEN
      busy := true;
      CONTINUE;
    END IF;
    -- Again, now that nobody else can take one.
    requester_slot := processing.free_requester_slot(next_turn.requester_id, requester_limit);
    CONTINUE WHEN requester_slot IS NULL;
    FOR head IN
      SELECT q.job_id, q.project_id FROM processing.queue_entry q
      WHERE q.operation = op AND q.requester_id = next_turn.requester_id AND q.lane_head ORDER BY q.seq
    LOOP
      CONTINUE WHEN processing.free_project_slot(head.project_id, project_limit) IS NULL;
      IF NOT pg_try_advisory_xact_lock(processing.project_key(head.project_id)) THEN
        busy := true;
        CONTINUE;
      END IF;
      project_slot := processing.free_project_slot(head.project_id, project_limit);
      CONTINUE WHEN project_slot IS NULL;
      SELECT j.id INTO job_id FROM processing.job j
      WHERE j.id = head.job_id AND j.state = 'queued' AND j.queue_expires_at > now()
      FOR NO KEY UPDATE SKIP LOCKED;
      IF job_id IS NULL THEN
        busy := true;
        CONTINUE;
      END IF;
      PERFORM processing.take_out(job_id);
      INSERT INTO processing.claim_slot
        (claim_id, session_id, operation, requester_id, project_id, session_slot, requester_slot, project_slot)
      VALUES (claim, session, op, next_turn.requester_id, head.project_id, session_slot, requester_slot, project_slot);
      busy := false;
      RETURN;
    END LOOP;
  END LOOP;
END $$;

-- What waits and runs already.
SELECT processing.enter_queue(id) FROM processing.job
WHERE state = 'queued' AND (claimable_at IS NULL OR claimable_at <= now()) ORDER BY seq;
UPDATE processing.job SET claimable_at = NULL WHERE claimable_at IS NOT NULL AND (state <> 'queued' OR claimable_at <= now())
  AND state NOT IN ('succeeded', 'failed', 'cancelled', 'expired');
INSERT INTO processing.claim_slot (claim_id, session_id, operation, requester_id, project_id, session_slot, requester_slot, project_slot)
SELECT
  claim_id, session_id, operation, requester_id, processing.lane_of(project_id),
  row_number() OVER (PARTITION BY session_id, operation ORDER BY started_at),
  row_number() OVER (PARTITION BY requester_id ORDER BY started_at),
  row_number() OVER (PARTITION BY processing.lane_of(project_id) ORDER BY started_at)
FROM processing.attempt WHERE ended_at IS NULL;
