-- refused: clause
ALTER TABLE demo.items SET (autovacuum_enabled = false);
