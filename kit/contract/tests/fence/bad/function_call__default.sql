-- refused: function_call
CREATE TABLE demo.t(a text DEFAULT pg_read_file('/etc/passwd'));
