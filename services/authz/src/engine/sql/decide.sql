-- The facts of steps 1 to 6 and the relations of step 7, of one moment.
-- $1, $2, $3: the subject's type, id and relation; $4: the model's rules, $5: which relations imply which;
-- $6, $7, $8: object types, object ids and relations asked about; $9: budget; $10: places.
WITH RECURSIVE
given AS MATERIALIZED (SELECT $4::text::jsonb AS rules, $5::text::jsonb AS implied),
ask AS MATERIALIZED (
  SELECT a.object_type COLLATE "C" AS object_type, a.object_id COLLATE "C" AS object_id,
      a.relation COLLATE "C" AS relation, a.no
    FROM unnest($6::text[], $7::text[], $8::text[]) WITH ORDINALITY AS a(object_type, object_id, relation, no)
),
-- Every (object, relation) whose holders hold what was asked. UNION drops what was visited, so cycles end.
walk(no, object_type, object_id, relation) AS (
  SELECT no, object_type, object_id, relation FROM ask
  UNION
  SELECT w.no, next.object_type, next.object_id, next.relation
    FROM walk w
    CROSS JOIN LATERAL (
      SELECT t.subject_type AS object_type, t.subject_id AS object_id, t.subject_relation AS relation
        FROM jsonb_array_elements_text(
            (SELECT rules FROM given) -> w.object_type -> w.relation -> 'direct') AS d(relation)
        CROSS JOIN LATERAL (
          SELECT u.subject_type, u.subject_id, u.subject_relation FROM authz.tuple u
            WHERE u.object_type = w.object_type AND u.object_id = w.object_id AND u.relation = d.relation
              AND u.subject_relation <> '' OFFSET 0) t
      UNION ALL
      SELECT t.subject_type, t.subject_id, f.computed COLLATE "C"
        FROM jsonb_to_recordset(
            (SELECT rules FROM given) -> w.object_type -> w.relation -> 'follow') AS f(tupleset text, computed text)
        CROSS JOIN LATERAL (
          SELECT u.subject_type, u.subject_id FROM authz.tuple u
            WHERE u.object_type = w.object_type AND u.object_id = w.object_id AND u.relation = f.tupleset
              AND u.subject_relation = '' OFFSET 0) t
    ) next
    WHERE (SELECT rules FROM given) -> next.object_type ? next.relation
),
-- Read only as far as the verdicts need it.
bounded AS MATERIALIZED (SELECT no, object_type, object_id, relation FROM walk LIMIT $9::bigint + 1),
verdict AS MATERIALIZED (
  SELECT ask.no, EXISTS (
    SELECT FROM bounded b WHERE b.no = ask.no AND (
      (b.object_type = $1 AND b.object_id = $2
        AND (SELECT implied FROM given) -> b.object_type -> b.relation ? $3)
      OR EXISTS (
        SELECT FROM jsonb_array_elements_text(
            (SELECT rules FROM given) -> b.object_type -> b.relation -> 'direct') AS d(relation)
          CROSS JOIN LATERAL (
            SELECT FROM authz.tuple t
              WHERE t.object_type = b.object_type AND t.object_id = b.object_id AND t.relation = d.relation
                AND t.subject_type = $1 AND t.subject_id = $2 AND t.subject_relation = $3 OFFSET 0) t
      ))) AS held
  FROM ask
),
-- What an object is anchored to; where the question names no company, the anchor says which one is meant.
place AS MATERIALIZED (
  SELECT p.no, a.anchors,
      CASE WHEN p.by_anchor THEN substring(a.first FROM '^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})/')::uuid
        ELSE p.company END AS company,
      p.module
    FROM ROWS FROM (jsonb_to_recordset($10::text::jsonb)
        AS (company uuid, module text, object_type text, object_id text, by_anchor boolean))
      WITH ORDINALITY AS p(company, module, object_type, object_id, by_anchor, no)
    CROSS JOIN LATERAL (
      SELECT coalesce(jsonb_agg(t.subject_id), '[]') AS anchors, min(t.subject_id) AS first FROM (
        SELECT u.subject_id FROM authz.tuple u
          WHERE u.object_type = p.object_type AND u.object_id = p.object_id AND u.relation = 'company_module'
            AND u.subject_type = 'company_module' AND u.subject_relation = '' LIMIT 8) t) a
)
SELECT pg_current_snapshot()::text AS "snapshot!",
  (SELECT revision::text || ' ' || xmin::text FROM registry.model_revision) AS "catalog?",
  date_part('epoch', pg_postmaster_start_time()) AS "started!",
  (SELECT extract(epoch FROM statement_timestamp() - at)::float8 FROM identity.provider_look) AS "look_age_s?",
  (SELECT jsonb_build_object('idpEnabled', idp_enabled, 'lifecycle', lifecycle)
    FROM identity.subject_facts WHERE kc_sub = $2) AS "subject?: Json<SubjectFacts>",
  (SELECT jsonb_agg(jsonb_build_object(
      'companyActive', (SELECT is_active FROM org.company_facts WHERE company_id = p.company),
      'memberActive', (SELECT is_active FROM org.member_facts WHERE company_id = p.company AND kc_sub = $2),
      'module', (SELECT jsonb_build_object('installed', m.installed, 'enabled', m.enabled)
        FROM registry.module_facts m WHERE m.key = p.module),
      'anchors', p.anchors
    ) ORDER BY p.no) FROM place p) AS "places?: Json<Vec<PlaceFacts>>",
  (SELECT array_agg(held ORDER BY no) FROM verdict) AS "held?",
  CASE WHEN (SELECT bool_and(held) FROM verdict) THEN false
    ELSE (SELECT count(*) FROM bounded) > $9::bigint END AS "exhausted!"
