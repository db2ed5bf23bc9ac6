ALTER TABLE audit.demo__events ADD COLUMN source text;
