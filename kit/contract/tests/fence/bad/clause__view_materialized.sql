-- refused: clause
CREATE MATERIALIZED VIEW demo.v AS SELECT 1;
