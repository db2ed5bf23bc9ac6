COMMENT ON TABLE audit.demo__events IS 'Who did what.';
