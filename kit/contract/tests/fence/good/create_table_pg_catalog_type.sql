CREATE TABLE demo.t(id pg_catalog.int8 NOT NULL);
