-- refused: clause
CREATE UNLOGGED TABLE demo.t(id uuid);
