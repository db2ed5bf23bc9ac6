-- refused: outside_fence
CREATE VIEW demo.v AS SELECT id FROM demo.a WHERE id IN (SELECT id FROM org.members);
