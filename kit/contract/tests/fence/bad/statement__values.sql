-- refused: statement
VALUES (1);
