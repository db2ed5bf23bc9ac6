-- refused: outside_fence
COMMENT ON TABLE org.members IS 'x';
