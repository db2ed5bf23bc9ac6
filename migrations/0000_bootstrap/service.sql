-- The fence around one service or module: run once per {key}, by a login that may create roles and schemas, under the
-- advisory lock of the runner. Idempotent. The password of a role that exists is never changed: roles belong to the
-- cluster, and another database of it may be in use.
DO $bootstrap$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'platform_owner') THEN
    CREATE ROLE platform_owner NOLOGIN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'platform_{key}') THEN
    CREATE ROLE platform_{key} LOGIN PASSWORD '{password}'
      NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT 50;
    ALTER ROLE platform_{key} SET search_path = '';
    ALTER ROLE platform_{key} SET idle_in_transaction_session_timeout = '5s';
    ALTER ROLE platform_{key} SET statement_timeout = '2500ms';
    ALTER ROLE platform_{key} SET lock_timeout = '2s';
    ALTER ROLE platform_{key} SET timezone = 'UTC';
  END IF;
  IF NOT pg_catalog.pg_has_role(current_user, 'platform_owner', 'MEMBER') THEN
    GRANT platform_owner TO CURRENT_USER;
  END IF;
END
$bootstrap$;

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
