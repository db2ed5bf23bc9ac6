-- refused: outside_fence
UPDATE demo.t SET a = org.secret(b);
