-- refused: function_call
UPDATE demo.t SET a = demo.f(b);
