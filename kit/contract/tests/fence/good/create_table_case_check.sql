CREATE TABLE demo.t(kind text, a uuid, b uuid,
  CHECK (num_nonnulls(a, b) = CASE WHEN kind IS NULL THEN 0 ELSE 1 END),
  CHECK ((kind IS NOT DISTINCT FROM 'a') = (a IS NOT NULL)));
