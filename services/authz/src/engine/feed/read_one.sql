-- The same moment as read_index.sql tells, for a round of one question after a cursor ($1) at which no transaction was
-- running: what the server spends on a statement is mostly the number of its parts, and here each list is one value.
-- $2: subject; $3: company; $4: module. Null: not asked for.
SELECT pg_current_snapshot()::text AS "snapshot!",
  e.epoch AS "epoch!", e.trimmed::text AS "trimmed!",
  date_part('epoch', pg_postmaster_start_time()) AS "started!",
  ARRAY(SELECT t.xmin FROM pg_trigger t WHERE t.tgrelid = e.tuples ORDER BY t.tgname)::text AS "wiring!",
  (SELECT revision::text || ' ' || xmin::text FROM registry.model_revision) AS "catalog?",
  (SELECT date_part('epoch', statement_timestamp() - at) FROM identity.provider_look) AS "look_age_s?",
  ARRAY(SELECT CASE WHEN xid < pg_snapshot_xmax(pg_current_snapshot()) THEN op::text ELSE 'F' END || row::text FROM feed.change
    WHERE kind = 'tuple' AND xid >= pg_snapshot_xmax($1::text::pg_snapshot) ORDER BY seq) AS "changes!: Vec<String>",
  (SELECT CASE WHEN f.idp_enabled THEN '+' ELSE '-' END || f.lifecycle
      FROM identity.subject_facts f WHERE f.kc_sub = $2::text) AS "subject?",
  (SELECT f.is_active FROM org.company_facts f WHERE f.company_id = $3::uuid) AS "company?",
  (SELECT f.is_active FROM org.member_facts f WHERE f.company_id = $3::uuid AND f.kc_sub = $2::text) AS "member?",
  (SELECT CASE WHEN f.installed THEN 1 ELSE 0 END + CASE WHEN f.enabled THEN 2 ELSE 0 END
      FROM registry.module_facts f WHERE f.key = $4::text) AS "module?"
FROM feed.epoch e WHERE e.xmin = e.written_by AND e.tuples = 'authz.tuple'::regclass
