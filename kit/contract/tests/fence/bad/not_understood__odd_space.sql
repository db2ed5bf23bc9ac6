-- refused: not_understood
DROP TABLE demo.t;
