CREATE VIEW demo.v AS WITH latest AS (SELECT id, max(seq) AS seq FROM demo.items GROUP BY id) SELECT * FROM latest;
