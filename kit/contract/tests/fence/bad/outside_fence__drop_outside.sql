-- refused: outside_fence
DROP TABLE org.members;
