-- Why: immutable bytes by SHA-256, in windows of 1 MiB, with a row for each holder of a reference.
-- Locks: new objects only. The running version is not affected.
CREATE SCHEMA blob;

CREATE TABLE blob.blob (
  sha256 text PRIMARY KEY CHECK (sha256 ~ '^[0-9a-f]{64}$'),
  content_id uuid NOT NULL UNIQUE,
  byte_length bigint NOT NULL CHECK (byte_length >= 0),
  touched_at timestamptz NOT NULL DEFAULT now()
);

-- Chunks arrive by COPY before their blob row exists; those whose blob row never came are the reaper's.
CREATE TABLE blob.chunk (
  content_id uuid NOT NULL,
  seq integer NOT NULL CHECK (seq >= 0),
  data bytea NOT NULL,
  PRIMARY KEY (content_id, seq)
);
-- The bytes are archives, PDFs and pictures: compressing them again costs time and gains nothing.
ALTER TABLE blob.chunk ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE blob.writing (
  content_id uuid PRIMARY KEY,
  started_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE blob.reference (
  holder text NOT NULL CHECK (holder <> ''),
  sha256 text NOT NULL REFERENCES blob.blob (sha256),
  PRIMARY KEY (holder, sha256)
);
CREATE INDEX reference_sha256 ON blob.reference (sha256);
