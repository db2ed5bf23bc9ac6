-- refused: unqualified
CREATE INDEX i ON items(id);
