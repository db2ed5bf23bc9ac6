-- refused: statement
EXPLAIN ANALYZE DELETE FROM demo.t;
