-- refused: clause
CREATE VIEW demo.v AS SELECT 1 INTO demo.x;
