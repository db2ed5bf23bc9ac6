-- refused: outside_fence
CREATE VIEW demo.v AS SELECT rolname FROM pg_catalog.pg_authid;
