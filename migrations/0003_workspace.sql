-- Why: projects and their file trees. A project's row is its fence: whoever changes the project locks it first.
-- Locks: new objects only.
CREATE SCHEMA workspace;

CREATE TABLE workspace.project (
  id uuid PRIMARY KEY,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  type text NOT NULL CHECK (type IN ('LATEX', 'TYPST')),
  engine text CHECK (engine IN ('pdflatex', 'xelatex', 'lualatex')),
  entry_path text,
  source_epoch bigint CHECK (source_epoch >= 0),
  generation bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  deleted_at timestamptz,
  CHECK (engine IS NULL OR type = 'LATEX')
);

CREATE TABLE workspace.file (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL REFERENCES workspace.project (id) ON DELETE CASCADE,
  path text NOT NULL CHECK (path <> '' AND length(path) <= 1024),
  -- NFC and case-folded: two names that a Mac or Windows disk could not keep apart are one name here.
  path_key text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('document', 'asset')),
  asset_sha256 text,
  asset_byte_length bigint,
  updated_at timestamptz NOT NULL DEFAULT now(),
  CHECK ((kind = 'asset') = (asset_sha256 IS NOT NULL)),
  CHECK ((kind = 'asset') = (asset_byte_length IS NOT NULL)),
  UNIQUE (project_id, path_key)
);

CREATE TABLE workspace.upload (
  id uuid PRIMARY KEY,
  principal_id uuid NOT NULL,
  declared_sha256 text NOT NULL CHECK (declared_sha256 ~ '^[0-9a-f]{64}$'),
  declared_byte_length bigint NOT NULL CHECK (declared_byte_length >= 0),
  stored_at timestamptz,
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX upload_expires ON workspace.upload (expires_at);

-- The frozen descriptor of one capture; its id is the job's. Gone when the input blob is durable or the job ended.
CREATE TABLE workspace.snapshot (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL,
  descriptor jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE workspace.command_key (
  principal_id uuid NOT NULL,
  command text NOT NULL,
  key text NOT NULL,
  command_digest text NOT NULL,
  project_id uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (principal_id, command, key)
);
CREATE INDEX command_key_created ON workspace.command_key (created_at);
