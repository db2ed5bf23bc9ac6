CREATE INDEX items_words ON demo.items USING gin (words) WITH (fastupdate = off, fillfactor = 90);
