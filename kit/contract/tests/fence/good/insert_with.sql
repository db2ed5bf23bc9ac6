INSERT INTO demo.b(id) WITH w AS (SELECT id FROM demo.a) SELECT id FROM w;
