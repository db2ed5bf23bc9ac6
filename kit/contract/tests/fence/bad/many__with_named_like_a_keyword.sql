-- refused: clause, unqualified
INSERT INTO demo.t(a) WITH "only" AS (SELECT 1) SELECT rolpassword FROM ONLY pg_authid;
