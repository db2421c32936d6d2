-- Why: accepted Yjs updates and their projection to text, which is written with them in one transaction.
-- Locks: new objects only.
CREATE SCHEMA collaboration;

CREATE TABLE collaboration.document (
  id uuid PRIMARY KEY,
  project_id uuid NOT NULL,
  -- Merged Yjs state of all accepted updates.
  state bytea NOT NULL,
  -- The projection. Stored beside the state so that a capture never replays updates under the fence.
  text text NOT NULL,
  sha256 text NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  byte_length bigint NOT NULL CHECK (byte_length >= 0),
  update_count bigint NOT NULL DEFAULT 1,
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX document_project ON collaboration.document (project_id);

-- Texts as some capture saw them, kept while a pin holds them.
CREATE TABLE collaboration.frozen_text (
  sha256 text PRIMARY KEY CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  text text NOT NULL,
  touched_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE collaboration.frozen_text_pin (
  holder uuid NOT NULL,
  sha256 text NOT NULL REFERENCES collaboration.frozen_text (sha256),
  PRIMARY KEY (holder, sha256)
);
CREATE INDEX frozen_text_pin_sha256 ON collaboration.frozen_text_pin (sha256);
