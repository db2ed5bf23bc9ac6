-- refused: schema_move
ALTER VIEW demo.v SET SCHEMA feed;
