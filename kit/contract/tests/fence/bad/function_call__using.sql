-- refused: function_call
ALTER TABLE demo.t ALTER COLUMN a TYPE text USING pg_read_file(a);
