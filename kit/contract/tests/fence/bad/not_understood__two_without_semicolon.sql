-- refused: not_understood
DROP TABLE demo.a DROP TABLE demo.b;
