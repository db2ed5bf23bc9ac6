-- refused: outside_fence
CREATE TABLE demo.t(id uuid REFERENCES org.members(id));
