-- The platform role: held by the tuple `system:platform#superadmin@user:<subject>`, its history in the ledger.

CREATE TABLE authz.role_ledger(
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  occurred_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  role text NOT NULL,
  subject text NOT NULL,
  change text NOT NULL CHECK (change IN ('granted', 'revoked')),
  actor text NOT NULL,
  correlation_id text);
CREATE INDEX role_ledger_subject ON authz.role_ledger(role, subject, seq);
GRANT SELECT, INSERT ON authz.role_ledger TO platform_authz;

-- One row. Whoever may leave the platform without a superadmin locks it first, in a statement of its own, and only then
-- reads who holds the role.
CREATE TABLE authz.superadmin_guard(one boolean PRIMARY KEY DEFAULT true CHECK (one));
INSERT INTO authz.superadmin_guard(one) VALUES (true);
-- `SELECT … FOR UPDATE` needs the right to change a column; the check above leaves it nothing to change it to.
GRANT SELECT, UPDATE ON authz.superadmin_guard TO platform_authz;

-- For identity, which may call this and nothing else of authz: locks the guard until the transaction ends and answers the
-- subjects that hold the role then. Two statements of a READ COMMITTED transaction, so that the second sees what was
-- committed while the first waited.
CREATE FUNCTION authz.superadmin_guard() RETURNS SETOF text
  LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $guard$
BEGIN
  PERFORM FROM authz.superadmin_guard FOR UPDATE;
  RETURN QUERY SELECT t.subject_id::text FROM authz.tuple t
    WHERE t.object_type = 'system' AND t.object_id = 'platform' AND t.relation = 'superadmin'
      AND t.subject_type = 'user' AND t.subject_relation = ''
    ORDER BY t.subject_id;
END
$guard$;
REVOKE ALL ON FUNCTION authz.superadmin_guard() FROM PUBLIC;
GRANT USAGE ON SCHEMA authz TO platform_identity;
GRANT EXECUTE ON FUNCTION authz.superadmin_guard() TO platform_identity;
