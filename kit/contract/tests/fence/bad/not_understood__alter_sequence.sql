-- refused: not_understood
ALTER SEQUENCE demo.s RESTART WITH 5;
