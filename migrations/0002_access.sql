-- Why: who may do what. Tokens are stored hashed; a dump of this schema opens nothing.
-- Locks: new objects only.
CREATE SCHEMA access;

CREATE TABLE access.principal (
  id uuid PRIMARY KEY,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE access.api_token (
  id uuid PRIMARY KEY,
  principal_id uuid NOT NULL REFERENCES access.principal (id) ON DELETE CASCADE,
  token_sha256 text NOT NULL UNIQUE CHECK (token_sha256 ~ '^[0-9a-f]{64}$'),
  label text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);
CREATE INDEX api_token_principal ON access.api_token (principal_id);

CREATE TABLE access.project_grant (
  project_id uuid NOT NULL,
  principal_id uuid NOT NULL REFERENCES access.principal (id) ON DELETE CASCADE,
  role text NOT NULL CHECK (role IN ('owner', 'editor', 'viewer')),
  granted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (project_id, principal_id)
);
CREATE INDEX project_grant_principal ON access.project_grant (principal_id, project_id);
