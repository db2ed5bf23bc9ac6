-- refused: statement
TRUNCATE demo.t;
