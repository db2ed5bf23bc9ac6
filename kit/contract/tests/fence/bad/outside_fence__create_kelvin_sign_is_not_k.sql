-- refused: outside_fence
CREATE TABLE Kemo.items(id uuid);
