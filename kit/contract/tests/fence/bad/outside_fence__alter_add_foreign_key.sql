-- refused: outside_fence
ALTER TABLE demo.t ADD CONSTRAINT x FOREIGN KEY (id) REFERENCES org.members(id);
