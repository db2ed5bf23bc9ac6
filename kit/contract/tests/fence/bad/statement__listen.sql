-- refused: statement
LISTEN x;
