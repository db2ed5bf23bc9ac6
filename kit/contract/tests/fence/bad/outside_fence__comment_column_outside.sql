-- refused: outside_fence
COMMENT ON COLUMN org.members.id IS 'x';
