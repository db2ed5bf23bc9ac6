-- refused: audit_append_only
DELETE FROM audit.demo__events WHERE seq < 10;
