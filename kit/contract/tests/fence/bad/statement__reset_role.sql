-- refused: statement
RESET ROLE;
