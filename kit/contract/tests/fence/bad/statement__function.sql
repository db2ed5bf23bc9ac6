-- refused: statement
CREATE FUNCTION demo.f() RETURNS int LANGUAGE sql AS 'SELECT 1';
