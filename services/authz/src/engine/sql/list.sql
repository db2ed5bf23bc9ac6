-- All objects of one type on which a subject holds one relation, found from the subject's side.
-- $1, $2, $3: the subject's type, id and relation; $4: what follows from what; $5, $6: object type and relation;
-- $7: budget; $8: id of the module in a company that the objects are anchored to, or NULL for all of them; $9, $10: how many
-- objects come before the wanted ones, and how many are wanted.
WITH RECURSIVE
given AS MATERIALIZED (SELECT $4::text::jsonb AS turned),
-- What the subject's own tuples give, and what its own relation implies.
first(object_type, object_id, relation) AS (
  SELECT t.object_type, t.object_id, q.relation COLLATE "C"
    FROM authz.tuple t
    CROSS JOIN LATERAL jsonb_array_elements_text(
      (SELECT turned FROM given) -> t.object_type -> 'direct' -> t.relation) AS q(relation)
    WHERE t.subject_type = $1 AND t.subject_id = $2 AND t.subject_relation = $3
  UNION ALL
  SELECT $1 COLLATE "C", $2 COLLATE "C", q.relation COLLATE "C"
    FROM jsonb_array_elements_text((SELECT turned FROM given) -> $1 -> 'implied' -> $3) AS q(relation)
),
reach(object_type, object_id, relation) AS (
  SELECT object_type, object_id, relation FROM first
  UNION
  SELECT next.object_type, next.object_id, next.relation
    FROM reach r
    CROSS JOIN LATERAL (
      SELECT t.object_type, t.object_id, q.relation COLLATE "C" AS relation
        FROM authz.tuple t
        CROSS JOIN LATERAL jsonb_array_elements_text(
          (SELECT turned FROM given) -> t.object_type -> 'direct' -> t.relation) AS q(relation)
        WHERE t.subject_type = r.object_type AND t.subject_id = r.object_id AND t.subject_relation = r.relation
      UNION ALL
      SELECT t.object_type, t.object_id, f.gives COLLATE "C"
        FROM authz.tuple t
        CROSS JOIN LATERAL jsonb_to_recordset(
          (SELECT turned FROM given) -> t.object_type -> 'follow' -> t.relation) AS f(computed text, gives text)
        WHERE t.subject_type = r.object_type AND t.subject_id = r.object_id AND t.subject_relation = ''
          AND f.computed = r.relation
    ) next
),
bounded AS MATERIALIZED (SELECT object_type, object_id, relation FROM reach LIMIT $7::bigint + 1),
listed AS MATERIALIZED (
  SELECT b.object_id FROM bounded b
    WHERE b.object_type = $5 AND b.relation = $6
      AND ($8::text IS NULL OR $8::text = ALL (
        SELECT a.subject_id FROM authz.tuple a
          WHERE a.object_type = b.object_type AND a.object_id = b.object_id AND a.relation = 'company_module'
            AND a.subject_type = 'company_module' AND a.subject_relation = '')
        AND EXISTS (
          SELECT FROM authz.tuple a
            WHERE a.object_type = b.object_type AND a.object_id = b.object_id AND a.relation = 'company_module'
              AND a.subject_type = 'company_module' AND a.subject_relation = ''))
)
SELECT ARRAY(SELECT object_id FROM listed ORDER BY object_id OFFSET $9::bigint LIMIT $10::bigint) AS "ids!: Vec<String>",
  (SELECT count(*) FROM listed) AS "total!",
  (SELECT count(*) FROM bounded) > $7::bigint AS "exhausted!"
