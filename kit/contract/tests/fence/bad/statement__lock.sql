-- refused: statement
LOCK TABLE demo.t;
