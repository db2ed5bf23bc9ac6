-- refused: statement
CREATE ROLE intruder SUPERUSER;
