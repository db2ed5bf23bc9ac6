-- refused: audit_append_only
CREATE OR REPLACE VIEW audit.demo__events AS SELECT 1 AS seq;
