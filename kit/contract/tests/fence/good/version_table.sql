COMMENT ON TABLE demo.schema_version IS 'Which migrations ran.';
