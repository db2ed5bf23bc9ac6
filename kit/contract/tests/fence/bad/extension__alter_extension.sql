-- refused: extension
ALTER EXTENSION pgcrypto UPDATE;
