-- refused: outside_fence
CREATE VIEW feed.v AS SELECT id FROM demo.a;
