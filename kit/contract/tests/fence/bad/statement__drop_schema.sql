-- refused: statement
DROP SCHEMA demo CASCADE;
