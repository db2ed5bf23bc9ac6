-- refused: clause
ALTER TABLE demo.t DISABLE TRIGGER x;
