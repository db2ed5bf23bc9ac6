-- refused: statement
VACUUM demo.t;
