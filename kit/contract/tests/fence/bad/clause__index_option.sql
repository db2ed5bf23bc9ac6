-- refused: clause
CREATE INDEX i ON demo.t(a) WITH (deduplicate_items = off);
