-- Everything that was written since the cursor ($1), as read_index.sql tells it, for a reader that takes it row by row.
SELECT CASE WHEN c.xid < pg_snapshot_xmax(pg_current_snapshot()) THEN c.op::text ELSE 'F' END || c.row::text AS "change!" FROM (
    SELECT xid, seq, op, row FROM feed.change WHERE kind = 'tuple' AND xid >= pg_snapshot_xmax($1::text::pg_snapshot)
    UNION ALL
    SELECT xid, seq, op, row FROM feed.change
      WHERE kind = 'tuple' AND xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot)))) c
  ORDER BY c.seq
