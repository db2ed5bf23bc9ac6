-- refused: outside_fence
CREATE TABLE audit.org__events(id uuid);
