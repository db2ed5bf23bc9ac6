-- refused: outside_fence
INSERT INTO audit.org__events(actor) VALUES ('x');
