-- refused: outside_fence
CREATE SEQUENCE org.numbers;
