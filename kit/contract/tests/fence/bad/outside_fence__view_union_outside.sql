-- refused: outside_fence
CREATE VIEW demo.v AS SELECT id FROM demo.a UNION SELECT id FROM org.members;
