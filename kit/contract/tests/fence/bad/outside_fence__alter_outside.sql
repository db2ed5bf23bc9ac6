-- refused: outside_fence
ALTER TABLE authz.tuple ADD COLUMN x int;
