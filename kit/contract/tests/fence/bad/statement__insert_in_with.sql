-- refused: statement
INSERT INTO demo.a(id) WITH w AS (DELETE FROM demo.b RETURNING id) SELECT id FROM w;
