-- refused: audit_append_only
GRANT ALL ON audit.demo__events TO platform_demo;
