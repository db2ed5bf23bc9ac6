-- refused: transaction
START TRANSACTION;
