-- Rows of the change log that somebody removes by hand would be missed by every reader that has not come to them: the log
-- begins anew, and the tuples are loaded. Only the log's own upkeep removes rows without that.
CREATE FUNCTION feed.tampered() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $tampered$
BEGIN
  IF current_setting('feed.upkeep', true) IS DISTINCT FROM 'on' AND EXISTS (SELECT FROM feed.epoch) THEN
    PERFORM feed.begin_anew();
  END IF;
  RETURN NULL;
END
$tampered$;
REVOKE ALL ON FUNCTION feed.tampered() FROM PUBLIC;

-- As before, and the removal says whose it is.
CREATE OR REPLACE FUNCTION feed.begin_anew() RETURNS uuid
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $anew$
DECLARE
  made uuid := gen_random_uuid();
BEGIN
  LOCK TABLE feed.epoch IN SHARE ROW EXCLUSIVE MODE;
  PERFORM set_config('feed.upkeep', 'on', true);
  DELETE FROM feed.change;
  PERFORM set_config('feed.upkeep', 'off', true);
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

CREATE OR REPLACE FUNCTION feed.trim(given uuid, bound xid8, most bigint) RETURNS bigint
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
  PERFORM set_config('feed.upkeep', 'on', true);
  DELETE FROM feed.change WHERE (xid, seq) IN
    (SELECT xid, seq FROM feed.change WHERE xid < upto ORDER BY xid, seq LIMIT most);
  GET DIAGNOSTICS removed = ROW_COUNT;
  PERFORM set_config('feed.upkeep', 'off', true);
  RETURN removed;
END
$trim$;

CREATE TRIGGER change_removed AFTER UPDATE OR DELETE ON feed.change
  FOR EACH STATEMENT EXECUTE FUNCTION feed.tampered();
CREATE TRIGGER change_truncated AFTER TRUNCATE ON feed.change
  FOR EACH STATEMENT EXECUTE FUNCTION feed.tampered();
