-- refused: function_call
INSERT INTO demo.t(a) VALUES (pg_read_file('/etc/passwd'));
