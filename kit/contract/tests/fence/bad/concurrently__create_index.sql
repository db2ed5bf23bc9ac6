-- refused: concurrently
CREATE INDEX CONCURRENTLY i ON demo.t(a);
