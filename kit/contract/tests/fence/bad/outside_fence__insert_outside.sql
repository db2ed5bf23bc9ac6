-- refused: outside_fence
INSERT INTO authz.tuple(object_type) VALUES ('company');
