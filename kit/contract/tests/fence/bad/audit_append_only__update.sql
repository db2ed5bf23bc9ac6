-- refused: audit_append_only
UPDATE audit.demo__events SET actor = 'x';
