-- refused: unqualified
CREATE VIEW demo.v AS SELECT rolname FROM pg_authid;
