-- refused: outside_fence
CREATE VIEW demo.v AS WITH w AS (SELECT * FROM org.members) SELECT * FROM w;
