ALTER TABLE demo.items ADD CONSTRAINT positive CHECK (amount > 0) NOT VALID;
ALTER TABLE demo.items VALIDATE CONSTRAINT positive;
