-- refused: extension
DROP EXTENSION pgcrypto;
