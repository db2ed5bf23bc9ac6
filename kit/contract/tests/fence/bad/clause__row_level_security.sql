-- refused: clause
ALTER TABLE demo.t ENABLE ROW LEVEL SECURITY;
