-- What is changed by hand is followed as well: rows that something else than the tuples' triggers writes into the log, as a
-- restore of the data alone does, begin it anew; so do tuples that are changed in place. The triggers fire in sessions that
-- turn triggers off for themselves (session_replication_role), as loaders do.

-- Within a trigger it is feed.log() that writes.
CREATE TRIGGER change_added AFTER INSERT ON feed.change
  FOR EACH STATEMENT WHEN (pg_trigger_depth() = 0)
  EXECUTE FUNCTION feed.tampered();
ALTER TABLE feed.change
  ENABLE ALWAYS TRIGGER change_added,
  ENABLE ALWAYS TRIGGER change_removed,
  ENABLE ALWAYS TRIGGER change_truncated;

-- Whether every trigger of the tuples writes the log or begins it anew; a restore of one schema alone can leave them out.
CREATE OR REPLACE FUNCTION feed.is_wired() RETURNS boolean
  LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
  AS $wired$
  SELECT count(*) = 4 FROM pg_trigger
    WHERE tgrelid = 'authz.tuple'::regclass AND tgenabled IN ('O', 'A')
      AND (tgname::text, tgfoid) IN (
        ('tuple_added', 'feed.log()'::regprocedure::oid), ('tuple_removed', 'feed.log()'::regprocedure::oid),
        ('tuple_changed', 'feed.truncated()'::regprocedure::oid),
        ('tuple_truncated', 'feed.truncated()'::regprocedure::oid))
$wired$;

CREATE OR REPLACE FUNCTION feed.wire() RETURNS void
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
  AS $wire$
BEGIN
  CREATE OR REPLACE TRIGGER tuple_added AFTER INSERT ON authz.tuple
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed.log('tuple');
  CREATE OR REPLACE TRIGGER tuple_removed AFTER DELETE ON authz.tuple
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed.log('tuple');
  CREATE OR REPLACE TRIGGER tuple_changed AFTER UPDATE ON authz.tuple
    FOR EACH STATEMENT EXECUTE FUNCTION feed.truncated();
  CREATE OR REPLACE TRIGGER tuple_truncated AFTER TRUNCATE ON authz.tuple
    FOR EACH STATEMENT EXECUTE FUNCTION feed.truncated();
  ALTER TABLE authz.tuple
    ENABLE ALWAYS TRIGGER tuple_added,
    ENABLE ALWAYS TRIGGER tuple_removed,
    ENABLE ALWAYS TRIGGER tuple_changed,
    ENABLE ALWAYS TRIGGER tuple_truncated;
END
$wire$;

SELECT feed.wire();
