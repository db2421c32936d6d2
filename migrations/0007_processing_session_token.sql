-- Why: a session's token is made from its id and the deployment's secret; the digest was stored and never read.
-- Locks: the session table for a moment. A running Core of the version before could open no session: stop it first.
ALTER TABLE processing.session DROP COLUMN token_sha256;
