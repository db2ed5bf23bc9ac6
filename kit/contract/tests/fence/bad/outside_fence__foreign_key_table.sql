-- refused: outside_fence
CREATE TABLE demo.t(id uuid, FOREIGN KEY (id) REFERENCES identity.users(id));
