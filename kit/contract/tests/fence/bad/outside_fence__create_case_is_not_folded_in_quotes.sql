-- refused: outside_fence
CREATE TABLE "Demo".items(id uuid);
