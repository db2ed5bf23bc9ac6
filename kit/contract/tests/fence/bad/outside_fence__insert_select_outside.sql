-- refused: outside_fence
INSERT INTO demo.t(id) SELECT id FROM org.members;
