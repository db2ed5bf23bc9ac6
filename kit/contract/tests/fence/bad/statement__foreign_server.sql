-- refused: statement
CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw;
