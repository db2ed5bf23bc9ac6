-- refused: unqualified, type, function_call
CREATE TABLE t(a citext DEFAULT pg_read_file('x'));
