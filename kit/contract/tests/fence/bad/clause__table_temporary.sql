-- refused: clause
CREATE TEMPORARY TABLE demo.t(id uuid);
