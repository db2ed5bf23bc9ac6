-- refused: outside_fence
ALTER TABLE demo.t ADD COLUMN m uuid REFERENCES org.members(id);
