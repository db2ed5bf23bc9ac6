ALTER TABLE demo.items ALTER COLUMN amount TYPE bigint USING amount::bigint;
