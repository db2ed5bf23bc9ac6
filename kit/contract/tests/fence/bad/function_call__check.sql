-- refused: function_call
CREATE TABLE demo.t(a text CHECK (pg_sleep(10) IS NULL));
