-- refused: outside_fence
CREATE VIEW demo.v AS SELECT (SELECT max(seq) FROM audit.org__events) FROM demo.a;
