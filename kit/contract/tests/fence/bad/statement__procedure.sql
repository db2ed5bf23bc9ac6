-- refused: statement
CREATE PROCEDURE demo.p() LANGUAGE sql AS 'SELECT 1';
