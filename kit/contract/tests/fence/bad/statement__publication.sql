-- refused: statement
CREATE PUBLICATION p FOR TABLE demo.t;
