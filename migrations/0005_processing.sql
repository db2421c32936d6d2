-- Why: the durable queue: jobs, attempts, sessions, staging, artifacts, replay of worker requests.
-- Locks: new objects only.
CREATE SCHEMA processing;

CREATE SEQUENCE processing.job_seq;

CREATE TABLE processing.job (
  id uuid PRIMARY KEY,
  -- First in, first out, without a clock. A retry keeps its place.
  seq bigint NOT NULL UNIQUE DEFAULT nextval('processing.job_seq'),
  operation text NOT NULL CHECK (operation IN ('latex.compile.pdf/v1', 'typst.export.pptx/v1', 'pptx.import.typst/v1')),
  requester_id uuid NOT NULL,
  project_id uuid,
  options jsonb NOT NULL,
  state text NOT NULL CHECK (state IN ('preparing', 'queued', 'running', 'finalizing', 'succeeded', 'failed', 'cancelled', 'expired')),
  phase text CHECK (phase IN ('capturing_input', 'waiting_for_worker', 'processing', 'uploading_result', 'validating_result', 'publishing_result')),
  version bigint NOT NULL DEFAULT 1 CHECK (version >= 1),
  input_sha256 text,
  input_byte_length bigint,
  input_digest text,
  attempt_count integer NOT NULL DEFAULT 0 CHECK (attempt_count >= 0),
  attempt_limit integer NOT NULL CHECK (attempt_limit >= 1),
  created_at timestamptz NOT NULL DEFAULT now(),
  queued_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  prepare_expires_at timestamptz NOT NULL,
  -- Lease of the replica that builds the input; past it another goes on from the snapshot.
  preparer_expires_at timestamptz,
  queue_expires_at timestamptz,
  -- Back-off of a retry: not claimable before.
  claimable_at timestamptz,
  cancel_requested_at timestamptz,
  failure jsonb,
  diagnostics jsonb NOT NULL DEFAULT '[]',
  processor_contract text,
  finalization_token uuid,
  finalization_expires_at timestamptz,
  CHECK ((state IN ('succeeded', 'failed', 'cancelled', 'expired')) = (finished_at IS NOT NULL)),
  CHECK ((state IN ('succeeded', 'failed', 'cancelled', 'expired')) = (phase IS NULL)),
  CHECK (state <> 'failed' OR failure IS NOT NULL),
  CHECK (state IN ('preparing', 'failed', 'cancelled', 'expired') OR input_sha256 IS NOT NULL),
  CHECK ((input_sha256 IS NULL) = (input_digest IS NULL) AND (input_sha256 IS NULL) = (input_byte_length IS NULL)),
  CHECK (state <> 'queued' OR (queue_expires_at IS NOT NULL AND phase = 'waiting_for_worker')),
  CHECK (state <> 'preparing' OR phase = 'capturing_input'),
  CHECK (state <> 'running' OR (attempt_count >= 1 AND phase IN ('processing', 'uploading_result'))),
  CHECK (state <> 'finalizing' OR phase IN ('validating_result', 'publishing_result')),
  CHECK (finalization_token IS NULL OR state = 'finalizing'),
  CHECK ((finalization_token IS NULL) = (finalization_expires_at IS NULL)),
  CHECK (attempt_count <= attempt_limit)
);
CREATE INDEX job_claimable ON processing.job (operation, seq) WHERE state = 'queued';
CREATE INDEX job_unfinished ON processing.job (state, seq) WHERE state IN ('preparing', 'queued', 'running', 'finalizing');
CREATE INDEX job_requester ON processing.job (requester_id, created_at DESC, id DESC);
CREATE INDEX job_project ON processing.job (project_id, created_at DESC, id DESC);

CREATE TABLE processing.session (
  id uuid PRIMARY KEY,
  worker_name text NOT NULL,
  instance_id uuid NOT NULL,
  token_sha256 text NOT NULL UNIQUE,
  executor text NOT NULL CHECK (executor IN ('bubblewrap', 'subprocess')),
  opened_at timestamptz NOT NULL DEFAULT now(),
  heard_at timestamptz NOT NULL DEFAULT now(),
  draining_since timestamptz,
  ended_at timestamptz
);
CREATE UNIQUE INDEX session_open_instance ON processing.session (worker_name, instance_id) WHERE ended_at IS NULL;
CREATE INDEX session_open ON processing.session (heard_at) WHERE ended_at IS NULL;

CREATE TABLE processing.session_processor (
  session_id uuid NOT NULL REFERENCES processing.session (id) ON DELETE CASCADE,
  operation text NOT NULL,
  name text NOT NULL,
  version text NOT NULL,
  contract text NOT NULL CHECK (contract ~ '^[0-9a-f]{64}$'),
  slots integer NOT NULL CHECK (slots BETWEEN 1 AND 256),
  facts jsonb NOT NULL,
  healthy boolean NOT NULL DEFAULT true,
  unhealthy_reason text,
  PRIMARY KEY (session_id, operation)
);

-- One execution lease of a job. A row is never reused: a retry is a new row with a new claim.
CREATE TABLE processing.attempt (
  claim_id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES processing.job (id) ON DELETE CASCADE,
  number integer NOT NULL CHECK (number >= 1),
  operation text NOT NULL,
  requester_id uuid NOT NULL,
  project_id uuid,
  session_id uuid NOT NULL,
  contract text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(),
  lease_expires_at timestamptz NOT NULL,
  ended_at timestamptz,
  outcome text CHECK (outcome IN ('delivered', 'failed', 'released', 'lease_expired', 'cancelled')),
  failure jsonb,
  CHECK ((ended_at IS NULL) = (outcome IS NULL)),
  UNIQUE (job_id, number)
);
CREATE UNIQUE INDEX attempt_open ON processing.attempt (job_id) WHERE ended_at IS NULL;
CREATE INDEX attempt_open_requester ON processing.attempt (requester_id) WHERE ended_at IS NULL;
CREATE INDEX attempt_open_project ON processing.attempt (project_id) WHERE ended_at IS NULL;
CREATE INDEX attempt_open_session ON processing.attempt (session_id, operation) WHERE ended_at IS NULL;
CREATE INDEX attempt_open_lease ON processing.attempt (lease_expires_at) WHERE ended_at IS NULL;

CREATE TABLE processing.staging (
  claim_id uuid NOT NULL REFERENCES processing.attempt (claim_id) ON DELETE CASCADE,
  role text NOT NULL CHECK (role IN ('pdf', 'log', 'synctex', 'pptx', 'report', 'bundle')),
  media_type text NOT NULL,
  byte_length bigint NOT NULL CHECK (byte_length >= 0),
  sha256 text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  stored_at timestamptz,
  -- Part of what the worker delivered; the rest is swept.
  delivered boolean NOT NULL DEFAULT false,
  PRIMARY KEY (claim_id, role),
  CHECK (NOT delivered OR stored_at IS NOT NULL)
);

-- The one publication a job can ever have.
CREATE TABLE processing.publication (
  job_id uuid PRIMARY KEY REFERENCES processing.job (id) ON DELETE CASCADE,
  claim_id uuid NOT NULL UNIQUE,
  result_project_id uuid UNIQUE,
  published_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE processing.artifact (
  id uuid PRIMARY KEY,
  job_id uuid NOT NULL REFERENCES processing.job (id) ON DELETE CASCADE,
  role text NOT NULL CHECK (role IN ('pdf', 'log', 'synctex', 'pptx', 'report', 'bundle')),
  media_type text NOT NULL,
  file_name text NOT NULL,
  byte_length bigint NOT NULL CHECK (byte_length >= 0),
  sha256 text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (job_id, role)
);

CREATE TABLE processing.phase_history (
  job_id uuid NOT NULL REFERENCES processing.job (id) ON DELETE CASCADE,
  version bigint NOT NULL,
  state text NOT NULL,
  phase text,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (job_id, version)
);

CREATE TABLE processing.command_key (
  requester_id uuid NOT NULL,
  command text NOT NULL,
  key text NOT NULL,
  command_digest text NOT NULL,
  job_id uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (requester_id, command, key)
);
CREATE INDEX command_key_created ON processing.command_key (created_at);

-- Stored answers of mutating worker calls. The row is written in the transaction of its effect, so it cannot be left "in progress".
CREATE TABLE processing.worker_request (
  session_id uuid NOT NULL,
  route text NOT NULL,
  key text NOT NULL,
  request_digest text NOT NULL,
  status integer,
  response jsonb,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (session_id, route, key)
);
CREATE INDEX worker_request_created ON processing.worker_request (created_at);

CREATE FUNCTION processing.record_phase() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO processing.phase_history (job_id, version, state, phase) VALUES (NEW.id, NEW.version, NEW.state, NEW.phase);
  RETURN NULL;
END $$;
CREATE TRIGGER record_phase_insert AFTER INSERT ON processing.job FOR EACH ROW EXECUTE FUNCTION processing.record_phase();
CREATE TRIGGER record_phase_update AFTER UPDATE OF state, phase ON processing.job FOR EACH ROW
  WHEN (OLD.state IS DISTINCT FROM NEW.state OR OLD.phase IS DISTINCT FROM NEW.phase) EXECUTE FUNCTION processing.record_phase();

-- The lifecycle table, repeated where nothing can go round it.
CREATE FUNCTION processing.refuse_illegal_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT (OLD.state, NEW.state) IN (
    ('preparing', 'queued'), ('preparing', 'succeeded'), ('preparing', 'failed'), ('preparing', 'cancelled'), ('preparing', 'expired'),
    ('queued', 'running'), ('queued', 'failed'), ('queued', 'cancelled'), ('queued', 'expired'),
    ('running', 'queued'), ('running', 'finalizing'), ('running', 'failed'), ('running', 'cancelled'),
    ('finalizing', 'succeeded'), ('finalizing', 'failed')
  ) THEN
    RAISE EXCEPTION 'a job cannot go from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation', CONSTRAINT = 'job_move';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER refuse_illegal_move BEFORE UPDATE OF state ON processing.job FOR EACH ROW
  WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION processing.refuse_illegal_move();
CREATE FUNCTION processing.refuse_change_of_terminal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a finished job does not change' USING ERRCODE = 'check_violation', CONSTRAINT = 'job_terminal';
END $$;
CREATE TRIGGER refuse_change_of_terminal BEFORE UPDATE ON processing.job FOR EACH ROW
  WHEN (OLD.state IN ('succeeded', 'failed', 'cancelled', 'expired') AND OLD.state = NEW.state) EXECUTE FUNCTION processing.refuse_change_of_terminal();
