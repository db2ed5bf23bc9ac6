-- The change log that authz follows: one row for every row added to or removed from a table whose triggers call
-- feed.log(). The cursor of a reader is a snapshot, not `seq`: a transaction that commits late is still seen, because its
-- `xid` was in progress in the reader's last snapshot.

CREATE TABLE feed.change(
  xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
  seq bigint GENERATED ALWAYS AS IDENTITY,
  kind text NOT NULL,
  op "char" NOT NULL CHECK (op IN ('I', 'D')),
  row jsonb NOT NULL,
  PRIMARY KEY (xid, seq));

-- Renewed by whoever restores or truncates: a reader that finds another epoch than its own starts anew.
CREATE TABLE feed.epoch(one boolean PRIMARY KEY DEFAULT true CHECK (one), epoch uuid NOT NULL);
INSERT INTO feed.epoch(epoch) VALUES (gen_random_uuid());

-- A statement trigger with a transition table named `changed`; its argument is the kind. It runs as its owner, so that the
-- roles that write tuples can neither read the log nor write into it.
CREATE FUNCTION feed.log() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  AS $log$
BEGIN
  INSERT INTO feed.change(kind, op, row)
    SELECT TG_ARGV[0], left(TG_OP, 1)::"char", to_jsonb(changed) FROM changed;
  RETURN NULL;
END
$log$;
REVOKE ALL ON FUNCTION feed.log() FROM PUBLIC;

GRANT USAGE ON SCHEMA feed TO platform_authz;
GRANT SELECT ON feed.change, feed.epoch TO platform_authz;
-- authz removes what every reader has left behind.
GRANT DELETE ON feed.change TO platform_authz;
