-- refused: audit_append_only
ALTER TABLE audit.demo__events RENAME TO old_events;
