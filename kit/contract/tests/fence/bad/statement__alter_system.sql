-- refused: statement
ALTER SYSTEM SET fsync = off;
