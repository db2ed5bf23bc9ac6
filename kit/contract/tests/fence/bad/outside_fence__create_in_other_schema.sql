-- refused: outside_fence
CREATE TABLE org.items(id uuid);
