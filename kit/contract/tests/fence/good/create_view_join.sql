CREATE VIEW demo.v AS SELECT a.id FROM demo.a a JOIN demo.b b ON a.id = b.a_id LEFT JOIN (SELECT id FROM demo.c) c ON c.id = a.id;
