ALTER TABLE demo.items DROP CONSTRAINT positive;
