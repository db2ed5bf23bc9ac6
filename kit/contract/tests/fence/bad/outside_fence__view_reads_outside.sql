-- refused: outside_fence
CREATE VIEW demo.v AS SELECT * FROM org.members;
