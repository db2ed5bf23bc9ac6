-- no-transaction
-- refused: transaction
DROP INDEX demo.i;
