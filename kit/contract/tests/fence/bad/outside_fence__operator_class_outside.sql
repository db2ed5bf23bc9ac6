-- refused: outside_fence
CREATE INDEX i ON demo.t USING gin (a org.ops);
