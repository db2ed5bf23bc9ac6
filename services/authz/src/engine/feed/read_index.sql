-- One moment: the snapshot, whose the change log is, what it says since the cursor ($1), and the facts of every decision of
-- the round. No row: the log is not this database's own. The wiring names who last changed the triggers that write the log:
-- while one was off, tuples changed without it. A change of a transaction that is yet to come is marked `F`.
-- $2: subjects; $3: companies; $4, $5: members (company, subject); $6: modules. A module is a sum: 1 installed, 2 enabled.
SELECT pg_current_snapshot()::text AS "snapshot!",
  e.epoch AS "epoch!", e.trimmed::text AS "trimmed!",
  date_part('epoch', pg_postmaster_start_time()) AS "started!",
  ARRAY(SELECT t.xmin FROM pg_trigger t WHERE t.tgrelid = e.tuples ORDER BY t.tgname)::text AS "wiring!",
  (SELECT revision::text || ' ' || xmin::text FROM registry.model_revision) AS "catalog?",
  (SELECT date_part('epoch', statement_timestamp() - at) FROM identity.provider_look) AS "look_age_s?",
  ARRAY(SELECT CASE WHEN c.xid < pg_snapshot_xmax(pg_current_snapshot()) THEN c.op::text ELSE 'F' END || c.row::text FROM (
      SELECT xid, seq, op, row FROM feed.change WHERE kind = 'tuple' AND xid >= pg_snapshot_xmax($1::text::pg_snapshot)
      UNION ALL
      SELECT xid, seq, op, row FROM feed.change
        WHERE kind = 'tuple' AND xid = ANY (ARRAY(SELECT pg_snapshot_xip($1::text::pg_snapshot)))) c
    ORDER BY c.seq) AS "changes!: Vec<String>",
  ARRAY(SELECT (SELECT CASE WHEN f.idp_enabled THEN '+' ELSE '-' END || f.lifecycle
      FROM identity.subject_facts f WHERE f.kc_sub = q.subject)
    FROM unnest($2::text[]) AS q(subject)) AS "subjects!: Vec<Option<String>>",
  ARRAY(SELECT (SELECT f.is_active FROM org.company_facts f WHERE f.company_id = q.company)
    FROM unnest($3::uuid[]) AS q(company)) AS "companies!: Vec<Option<bool>>",
  ARRAY(SELECT (SELECT f.is_active FROM org.member_facts f WHERE f.company_id = q.company AND f.kc_sub = q.subject)
    FROM ROWS FROM (unnest($4::uuid[]), unnest($5::text[])) AS q(company, subject)) AS "members!: Vec<Option<bool>>",
  ARRAY(SELECT (SELECT CASE WHEN f.installed THEN 1 ELSE 0 END + CASE WHEN f.enabled THEN 2 ELSE 0 END
      FROM registry.module_facts f WHERE f.key = q.module)
    FROM unnest($6::text[]) AS q(module)) AS "modules!: Vec<Option<i32>>"
FROM feed.epoch e WHERE e.xmin = e.written_by AND e.tuples = 'authz.tuple'::regclass
