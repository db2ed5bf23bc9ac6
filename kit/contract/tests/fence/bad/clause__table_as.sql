-- refused: clause
CREATE TABLE demo.t AS SELECT 1 AS id;
