-- refused: statement
CALL demo.p();
