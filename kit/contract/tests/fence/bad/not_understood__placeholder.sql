-- refused: not_understood
DELETE FROM demo.t WHERE id = $1;
