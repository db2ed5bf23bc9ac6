-- refused: function_call
CREATE INDEX i ON demo.t(pg_read_file(a));
