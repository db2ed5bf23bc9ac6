-- refused: audit_append_only
GRANT UPDATE ON audit.demo__events TO platform_demo;
