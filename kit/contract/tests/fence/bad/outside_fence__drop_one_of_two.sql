-- refused: outside_fence
DROP TABLE demo.a, org.members;
