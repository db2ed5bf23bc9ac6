-- refused: clause
CREATE TYPE demo.s;
