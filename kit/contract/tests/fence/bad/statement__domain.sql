-- refused: statement
CREATE DOMAIN demo.d AS text;
