-- refused: statement
ANALYZE demo.t;
