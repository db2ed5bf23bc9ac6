-- refused: transaction
SAVEPOINT a;
