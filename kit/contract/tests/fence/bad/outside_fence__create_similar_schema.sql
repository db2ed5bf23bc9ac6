-- refused: outside_fence
CREATE TABLE demo2.items(id uuid);
