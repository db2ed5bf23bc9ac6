-- refused: unqualified
INSERT INTO t(id) VALUES (1);
