-- refused: statement
SET ROLE postgres;
