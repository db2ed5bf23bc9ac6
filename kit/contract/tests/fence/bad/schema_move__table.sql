-- refused: schema_move
ALTER TABLE demo.t SET SCHEMA org;
