-- refused: clause
CREATE EXTENSION pgcrypto WITH CASCADE;
