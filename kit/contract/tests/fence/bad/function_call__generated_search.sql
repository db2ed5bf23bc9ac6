-- refused: function_call, outside_fence
-- `ts_stat` runs the query that its argument holds, and another schema's `setweight` is whatever that schema made it.
ALTER TABLE demo.pages ADD COLUMN search tsvector GENERATED ALWAYS AS (setweight(ts_stat('SELECT 1'), 'A')) STORED;
ALTER TABLE demo.pages ADD COLUMN found tsvector GENERATED ALWAYS AS (other.setweight(words, 'A')) STORED;
