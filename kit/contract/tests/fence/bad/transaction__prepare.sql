-- refused: transaction
PREPARE TRANSACTION 'x';
