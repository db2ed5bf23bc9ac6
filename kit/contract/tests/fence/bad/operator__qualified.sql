-- refused: operator
DELETE FROM demo.t WHERE a OPERATOR(org.=) b;
