-- refused: not_understood
/* CREATE TABLE demo.t(id uuid);
