-- refused: transaction
CREATE TABLE demo.t(id uuid);
COMMIT;
