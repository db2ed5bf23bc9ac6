-- All subjects of one type that hold one relation of an object: plain ones, or usersets of one relation.
-- $1, $2, $3: object type, object id and relation; $4: the model's rules; $5, $6: subject type and relation ('' for plain
-- ones); $7: which relations imply which; $8: budget.
WITH RECURSIVE
given AS MATERIALIZED (SELECT $4::text::jsonb AS rules),
walk(object_type, object_id, relation) AS (
  SELECT $1::text COLLATE "C", $2::text COLLATE "C", $3::text COLLATE "C"
  UNION
  SELECT next.object_type, next.object_id, next.relation
    FROM walk w
    CROSS JOIN LATERAL (
      SELECT t.subject_type AS object_type, t.subject_id AS object_id, t.subject_relation AS relation
        FROM jsonb_array_elements_text(
            (SELECT rules FROM given) -> w.object_type -> w.relation -> 'direct') AS d(relation)
        JOIN authz.tuple t ON t.object_type = w.object_type AND t.object_id = w.object_id
          AND t.relation = d.relation AND t.subject_relation <> ''
      UNION ALL
      SELECT t.subject_type, t.subject_id, f.computed COLLATE "C"
        FROM jsonb_to_recordset(
            (SELECT rules FROM given) -> w.object_type -> w.relation -> 'follow') AS f(tupleset text, computed text)
        JOIN authz.tuple t ON t.object_type = w.object_type AND t.object_id = w.object_id
          AND t.relation = f.tupleset AND t.subject_relation = ''
    ) next
    WHERE (SELECT rules FROM given) -> next.object_type ? next.relation
),
bounded AS MATERIALIZED (SELECT object_type, object_id, relation FROM walk LIMIT $8::bigint + 1)
SELECT ARRAY(
    SELECT t.subject_id
      FROM bounded b
      CROSS JOIN LATERAL jsonb_array_elements_text(
        (SELECT rules FROM given) -> b.object_type -> b.relation -> 'direct') AS d(relation)
      JOIN authz.tuple t ON t.object_type = b.object_type AND t.object_id = b.object_id AND t.relation = d.relation
        AND t.subject_relation = $6 AND t.subject_type = $5
    UNION
    -- A userset holds itself, and what it implies.
    SELECT b.object_id FROM bounded b
      WHERE b.object_type = $5 AND $7::text::jsonb -> b.object_type -> b.relation ? $6
    ORDER BY 1) AS "ids!: Vec<String>",
  0::bigint AS "total!",
  (SELECT count(*) FROM bounded) > $8::bigint AS "exhausted!"
