-- refused: transaction
BEGIN;
