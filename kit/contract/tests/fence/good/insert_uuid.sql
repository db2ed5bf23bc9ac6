INSERT INTO demo.kinds(id, made) VALUES (gen_random_uuid(), current_timestamp);
