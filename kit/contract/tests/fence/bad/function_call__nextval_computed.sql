-- refused: function_call
INSERT INTO demo.t(n) VALUES (nextval('org' || '.numbers'));
