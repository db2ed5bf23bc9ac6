-- refused: statement
REFRESH MATERIALIZED VIEW demo.m;
