-- refused: clause
CREATE TABLE demo.t(id uuid) WITH (fillfactor = 70);
