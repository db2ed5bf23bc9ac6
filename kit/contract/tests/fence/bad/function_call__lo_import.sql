-- refused: function_call
UPDATE demo.t SET a = lo_import('/etc/passwd');
