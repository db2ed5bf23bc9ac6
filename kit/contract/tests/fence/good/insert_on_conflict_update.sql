INSERT INTO demo.kinds(key, label) VALUES ('a', 'A') ON CONFLICT (key) DO UPDATE SET label = excluded.label;
