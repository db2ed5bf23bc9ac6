-- refused: extension
CREATE EXTENSION "PGCRYPTO";
