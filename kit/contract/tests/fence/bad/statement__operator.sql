-- refused: statement
CREATE OPERATOR demo.=== (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq);
