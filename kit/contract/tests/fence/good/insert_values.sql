INSERT INTO demo.kinds(key, label) VALUES ('a', 'A'), ('b', 'it''s B') ON CONFLICT DO NOTHING;
