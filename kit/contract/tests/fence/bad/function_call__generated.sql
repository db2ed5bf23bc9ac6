-- refused: function_call
CREATE TABLE demo.t(a text, b text GENERATED ALWAYS AS (pg_read_file(a)) STORED);
