-- refused: security_definer
CREATE FUNCTION demo.f() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';
