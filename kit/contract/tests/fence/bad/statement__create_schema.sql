-- refused: statement
CREATE SCHEMA other;
