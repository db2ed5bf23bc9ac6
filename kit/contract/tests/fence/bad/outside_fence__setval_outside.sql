-- refused: outside_fence
UPDATE demo.t SET n = setval('org.numbers', 1);
