-- refused: function_call
DELETE FROM demo.t WHERE pg_terminate_backend(1);
