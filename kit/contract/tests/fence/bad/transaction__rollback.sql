-- refused: transaction
ROLLBACK;
