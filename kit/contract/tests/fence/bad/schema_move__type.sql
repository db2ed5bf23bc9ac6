-- refused: schema_move
ALTER TYPE demo.state SET SCHEMA public;
