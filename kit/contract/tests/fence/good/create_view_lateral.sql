CREATE VIEW demo.v AS SELECT a.id, l.n FROM demo.a a, LATERAL (SELECT count(*) AS n FROM demo.b b WHERE b.a_id = a.id) l;
