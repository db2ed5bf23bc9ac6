-- refused: statement
SELECT 1;
