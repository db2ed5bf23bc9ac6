-- The own tuples of a user ($1) for a summary: on enabled modules ($3) in some companies ($2) by the relations of modules
-- ($4), and on objects, whose types are not those of the base model ($6), of modules in some companies ($5). Of the latter
-- at most $7 are looked at. An object belongs to the module and company of its only anchor.
WITH own AS MATERIALIZED (
  SELECT object_type, object_id, relation FROM authz.tuple
   WHERE subject_type = 'user' AND subject_id = $1 AND subject_relation = '' AND object_type <> ALL($6::text[])
   ORDER BY relation, object_type, object_id LIMIT $7::bigint)
SELECT
  (SELECT coalesce(jsonb_agg(jsonb_build_object('company', left(t.object_id, 36), 'relation', t.relation,
        'object', jsonb_build_object('type', t.object_type, 'id', t.object_id))), '[]')
     FROM authz.tuple t
    WHERE t.subject_type = 'user' AND t.subject_id = $1 AND t.subject_relation = ''
      AND t.relation = ANY($4::text[]) AND t.object_type = 'company_module'
      AND left(t.object_id, 37) IN (SELECT id || '/' FROM unnest($2::uuid[]) AS id)
      AND substr(t.object_id, 38) = ANY($3::text[])
  ) AS "tiers!: Json<Vec<OwnTuple>>",
  (SELECT coalesce(jsonb_agg(jsonb_build_object('company', a.company, 'relation', own.relation,
        'object', jsonb_build_object('type', own.object_type, 'id', own.object_id))), '[]')
     FROM own CROSS JOIN LATERAL (
       SELECT min(left(a.subject_id, 36)) AS company FROM authz.tuple a
        WHERE a.object_type = own.object_type AND a.object_id = own.object_id
          AND a.relation = 'company_module' AND a.subject_type = 'company_module' AND a.subject_relation = ''
       HAVING count(*) = 1 AND bool_and(left(a.subject_id, 37) IN (SELECT id || '/' FROM unnest($5::uuid[]) AS id)
          AND substr(a.subject_id, 38) = ANY($3::text[]))) a
  ) AS "objects!: Json<Vec<OwnTuple>>",
  (SELECT count(*) FROM own) AS "looked_at!"
