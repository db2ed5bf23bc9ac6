-- refused: outside_fence
CREATE TABLE platform.demo.items(id uuid);
