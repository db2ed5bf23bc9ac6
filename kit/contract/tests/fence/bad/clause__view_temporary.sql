-- refused: clause
CREATE TEMPORARY VIEW demo.v AS SELECT 1;
