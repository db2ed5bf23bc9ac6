-- refused: outside_fence
INSERT INTO demo.t(n) VALUES (nextval('audit.org__events_seq_seq'));
