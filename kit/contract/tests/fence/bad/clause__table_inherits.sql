-- refused: clause
CREATE TABLE demo.t(id uuid) INHERITS (demo.s);
