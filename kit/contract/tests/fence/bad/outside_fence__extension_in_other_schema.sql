-- refused: outside_fence
CREATE EXTENSION pgcrypto WITH SCHEMA public;
