-- refused: outside_fence
CREATE INDEX i ON org.members(id);
