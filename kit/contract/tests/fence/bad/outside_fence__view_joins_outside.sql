-- refused: outside_fence
CREATE VIEW demo.v AS SELECT a.id FROM demo.a a JOIN org.members m ON m.id = a.id;
