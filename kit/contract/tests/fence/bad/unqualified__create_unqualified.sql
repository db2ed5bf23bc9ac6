-- refused: unqualified
CREATE TABLE items(id uuid);
