-- refused: unqualified
INSERT INTO demo.t(n) VALUES (nextval('numbers'));
