-- refused: audit_append_only
DROP TABLE audit.demo__events;
