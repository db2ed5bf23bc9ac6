-- refused: clause
CREATE TABLE demo.t(LIKE demo.s);
