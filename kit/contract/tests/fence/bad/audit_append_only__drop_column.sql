-- refused: audit_append_only
ALTER TABLE audit.demo__events DROP COLUMN actor;
