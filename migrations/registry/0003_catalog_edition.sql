-- Whatever changes a row of the catalog makes another edition of it: the revision's row is written anew, so that its `xmin`
-- is the changing transaction's. Readers that keep the catalog in memory (registry, authz) compare the edition and nothing
-- else, so a change that raised no revision, as an operator's statement or a restore of rows, must not escape them. The
-- trigger fires even where triggers are off (session_replication_role).

CREATE FUNCTION registry.make_edition() RETURNS trigger LANGUAGE plpgsql
  SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE registry.model_revision SET revision = revision;
  RETURN NULL;
END $$;
REVOKE EXECUTE ON FUNCTION registry.make_edition() FROM PUBLIC;

CREATE TRIGGER modules_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON registry.modules
  FOR EACH STATEMENT EXECUTE FUNCTION registry.make_edition();
ALTER TABLE registry.modules ENABLE ALWAYS TRIGGER modules_changed;
