-- Why: each round trip between the first lock of a claim and its commit holds others up and costs as much as the claim itself.
-- Locks: none.

-- Claims up to as many jobs as there are ids, in one round trip: holds the session's processor, takes the next job, makes it
-- what the lifecycle says of a claimed one, and opens its attempt. `reason` says why there is no more: `nothing`, `busy`
-- (passed over only because another transaction had it) or `no_room` (the session has no slot, drains, or is over).
CREATE FUNCTION processing.claim_jobs(
  op text, session uuid, claims uuid[], requester_limit integer, project_limit integer, lease_seconds double precision,
  claimed_state text, OUT jobs processing.job[], OUT reason text
) LANGUAGE plpgsql AS $$
DECLARE
  processor record;
  taken record;
  claimed processing.job;
  claim uuid;
BEGIN
  jobs := '{}';
  reason := 'no_room';
  SELECT p.slots, p.contract INTO processor FROM processing.session_processor p
  WHERE p.session_id = session AND p.operation = op AND p.healthy FOR NO KEY UPDATE;
  IF NOT FOUND THEN RETURN; END IF;
  -- Asked when the row is held: whoever drains or ends a session holds it first.
  PERFORM FROM processing.session s WHERE s.id = session AND s.ended_at IS NULL AND s.draining_since IS NULL;
  IF NOT FOUND THEN RETURN; END IF;
  FOREACH claim IN ARRAY claims LOOP
    SELECT * INTO taken FROM processing.take_next(op, session, claim, processor.slots, requester_limit, project_limit);
    reason := CASE WHEN taken.session_full THEN 'no_room' WHEN taken.busy THEN 'busy' ELSE 'nothing' END;
    IF taken.job_id IS NULL THEN RETURN; END IF;
    UPDATE processing.job j
    SET state = claimed_state, version = j.version + 1, phase = 'processing', attempt_count = j.attempt_count + 1,
      started_at = coalesce(j.started_at, now()), claimable_at = NULL
    WHERE j.id = taken.job_id
    RETURNING j.* INTO claimed;
    INSERT INTO processing.attempt
      (claim_id, job_id, number, operation, requester_id, project_id, session_id, contract, lease_expires_at)
    VALUES (
      claim, claimed.id, claimed.attempt_count, op, claimed.requester_id, claimed.project_id, session, processor.contract,
      clock_timestamp() + make_interval(secs => lease_seconds));
    jobs := jobs || claimed;
  END LOOP;
END $$;

-- hold_claim, and the job as it is when it is held. No row for a lost claim.
CREATE FUNCTION processing.hold_claimed_job(claim uuid, session uuid, lease_seconds double precision)
RETURNS SETOF processing.job LANGUAGE plpgsql ROWS 1 AS $$
DECLARE
  held uuid := processing.hold_claim(claim, session, lease_seconds);
BEGIN
  IF held IS NULL THEN RETURN; END IF;
  RETURN QUERY SELECT * FROM processing.job j WHERE j.id = held;
END $$;
