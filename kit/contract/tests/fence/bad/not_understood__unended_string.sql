-- refused: not_understood
INSERT INTO demo.t(a) VALUES ('x);
