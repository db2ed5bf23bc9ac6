-- The fence around one service or module: run once per {key} in the platform's database, after roles.sql, under the
-- advisory lock of the runner. Idempotent.
REVOKE ALL ON SCHEMA public FROM PUBLIC;
CREATE SCHEMA IF NOT EXISTS audit AUTHORIZATION platform_owner;
CREATE SCHEMA IF NOT EXISTS {key} AUTHORIZATION platform_owner;
CREATE SCHEMA IF NOT EXISTS feed AUTHORIZATION platform_owner;
GRANT USAGE ON SCHEMA audit TO platform_{key};
GRANT USAGE ON SCHEMA {key} TO platform_{key};

SET ROLE platform_owner;
CREATE TABLE IF NOT EXISTS audit.{key}__events(
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  occurred_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  company_id uuid,
  actor text NOT NULL,
  action text NOT NULL,
  subject text NOT NULL,
  correlation_id text,
  payload jsonb NOT NULL DEFAULT '{}');
CREATE INDEX IF NOT EXISTS {key}__events_subject ON audit.{key}__events(company_id, subject, seq);
-- Append-only for the service: it may add rows and read them, never change or remove one.
GRANT INSERT, SELECT ON audit.{key}__events TO platform_{key};
RESET ROLE;
