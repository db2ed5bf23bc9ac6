-- The login of one service or module: run once per {key} in the database `postgres`, under the advisory lock of the
-- runner, because roles belong to the cluster and not to a database. Idempotent. The password of a role that exists is
-- never changed: another database of the cluster may be in use.
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
  -- From version 16 on, who creates a role is its administrator but may not yet act as it.
  IF NOT pg_catalog.pg_has_role(current_user, 'platform_owner',
      CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
    GRANT platform_owner TO CURRENT_USER;
  END IF;
END
$bootstrap$;
