-- refused: statement
SET SESSION AUTHORIZATION postgres;
