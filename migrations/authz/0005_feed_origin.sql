-- Whose history the change log is. A log is only of use in the database that wrote it: the numbers of its transactions mean
-- nothing in another cluster, and a database that was put back to an earlier state has rows that no log tells of. So the
-- one row of feed.epoch names the cluster, its timeline and the table of tuples, and carries the number of the transaction
-- that wrote it. A row that a restore wrote has another number (its xmin) than the one it carries: that is how a restored
-- log is told from an own one, whatever else it looks like.

ALTER TABLE feed.epoch
  ADD COLUMN system_identifier bigint NOT NULL DEFAULT 0,
  ADD COLUMN timeline text NOT NULL DEFAULT '',
  ADD COLUMN tuples oid NOT NULL DEFAULT 0,
  ADD COLUMN written_by xid NOT NULL DEFAULT '0',
  -- The trim watermark: rows of transactions before it may have been removed. A reader whose cursor is below it would miss
  -- them, however young a clock believes the cursor to be.
  ADD COLUMN trimmed xid8 NOT NULL DEFAULT '0';
ALTER TABLE feed.epoch
  ALTER COLUMN system_identifier DROP DEFAULT, ALTER COLUMN timeline DROP DEFAULT,
  ALTER COLUMN tuples DROP DEFAULT, ALTER COLUMN written_by DROP DEFAULT, ALTER COLUMN trimmed DROP DEFAULT;

-- The cluster and the timeline that answer. As the owner, so that no other role needs the functions behind it.
CREATE FUNCTION feed.server(OUT system_identifier bigint, OUT timeline text)
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $server$
  SELECT c.system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8) FROM pg_control_system() c
$server$;

-- The epoch of the log when it is this database's own: written here, for this table of tuples, on this timeline, and
-- without rows of transactions that are yet to come. Else nothing.
CREATE FUNCTION feed.own_epoch() RETURNS uuid
  LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $own$
  SELECT e.epoch FROM feed.epoch e, feed.server() s
    WHERE e.xmin = e.written_by AND e.tuples = 'authz.tuple'::regclass
      AND e.system_identifier = s.system_identifier AND e.timeline = s.timeline
      AND NOT EXISTS (SELECT FROM feed.change WHERE xid >= pg_snapshot_xmax(pg_current_snapshot()))
$own$;

-- Whether both triggers of the tuples write the log; a restore of one schema alone can leave them out.
CREATE FUNCTION feed.is_wired() RETURNS boolean
  LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
  AS $wired$
  SELECT count(*) = 2 FROM pg_trigger
    WHERE tgrelid = 'authz.tuple'::regclass AND tgfoid = 'feed.log()'::regprocedure
      AND tgname IN ('tuple_added', 'tuple_removed') AND tgenabled IN ('O', 'A')
$wired$;

-- An empty log with a new epoch: every reader loads the tuples anew. Rows of transactions that run now stay theirs.
CREATE FUNCTION feed.begin_anew() RETURNS uuid
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $anew$
DECLARE
  made uuid := gen_random_uuid();
BEGIN
  LOCK TABLE feed.epoch IN SHARE ROW EXCLUSIVE MODE;
  DELETE FROM feed.change;
  -- A watermark of another cluster may be far ahead of this one's numbers.
  INSERT INTO feed.epoch(epoch, system_identifier, timeline, tuples, written_by, trimmed)
    SELECT made, s.system_identifier, s.timeline, 'authz.tuple'::regclass, '0', '0' FROM feed.server() s
    ON CONFLICT (one) DO UPDATE SET epoch = excluded.epoch, system_identifier = excluded.system_identifier,
      timeline = excluded.timeline, tuples = excluded.tuples, written_by = excluded.written_by,
      trimmed = excluded.trimmed;
  -- Read back, because within a savepoint it is not the transaction's own number.
  UPDATE feed.epoch SET written_by = xmin;
  RETURN made;
END
$anew$;

-- Begins anew only when the log is not this database's own; true when it did. A row that is missing is a restore that is
-- not over: only who migrates or rebuilds says so (`missing_too`) and writes one.
CREATE FUNCTION feed.keep_own(missing_too boolean) RETURNS boolean
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $keep$
BEGIN
  IF feed.own_epoch() IS NOT NULL THEN
    RETURN false;
  END IF;
  -- Several readers find it out at once, and one of them begins.
  LOCK TABLE feed.epoch IN SHARE ROW EXCLUSIVE MODE;
  IF feed.own_epoch() IS NOT NULL OR NOT (missing_too OR EXISTS (SELECT FROM feed.epoch)) THEN
    RETURN false;
  END IF;
  PERFORM feed.begin_anew();
  RETURN true;
END
$keep$;

-- Removes at most `most` rows of transactions before `bound` from the log of epoch `given`, and raises the watermark first.
-- A log that is another one by now is left alone, and so is what could still be running.
CREATE FUNCTION feed.trim(given uuid, bound xid8, most bigint) RETURNS bigint
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $trim$
DECLARE
  upto xid8;
  removed bigint;
BEGIN
  PERFORM FROM feed.epoch FOR UPDATE;
  IF feed.own_epoch() IS DISTINCT FROM given THEN
    RETURN 0;
  END IF;
  upto := least(bound, pg_snapshot_xmin(pg_current_snapshot()));
  UPDATE feed.epoch SET trimmed = upto, written_by = '0' WHERE trimmed < upto;
  IF FOUND THEN
    UPDATE feed.epoch SET written_by = xmin;
  END IF;
  DELETE FROM feed.change WHERE (xid, seq) IN
    (SELECT xid, seq FROM feed.change WHERE xid < upto ORDER BY xid, seq LIMIT most);
  GET DIAGNOSTICS removed = ROW_COUNT;
  RETURN removed;
END
$trim$;

-- All tuples went without a row of the log for each.
CREATE FUNCTION feed.truncated() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $truncated$
BEGIN
  IF EXISTS (SELECT FROM feed.epoch) THEN
    PERFORM feed.begin_anew();
  END IF;
  RETURN NULL;
END
$truncated$;

-- Makes the triggers of the tuples as they ship; for whoever owns the table.
CREATE FUNCTION feed.wire() RETURNS void
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
  AS $wire$
BEGIN
  CREATE OR REPLACE TRIGGER tuple_added AFTER INSERT ON authz.tuple
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed.log('tuple');
  CREATE OR REPLACE TRIGGER tuple_removed AFTER DELETE ON authz.tuple
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed.log('tuple');
  CREATE OR REPLACE TRIGGER tuple_truncated AFTER TRUNCATE ON authz.tuple
    FOR EACH STATEMENT EXECUTE FUNCTION feed.truncated();
  ALTER TABLE authz.tuple ENABLE TRIGGER USER;
END
$wire$;

REVOKE ALL ON FUNCTION feed.server(), feed.own_epoch(), feed.is_wired(), feed.begin_anew(), feed.keep_own(boolean),
  feed.trim(uuid, xid8, bigint), feed.truncated(), feed.wire() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION feed.server(), feed.own_epoch(), feed.is_wired(), feed.keep_own(boolean),
  feed.trim(uuid, xid8, bigint) TO platform_authz;
REVOKE DELETE ON feed.change FROM platform_authz;

SELECT feed.wire();
SELECT feed.begin_anew();
