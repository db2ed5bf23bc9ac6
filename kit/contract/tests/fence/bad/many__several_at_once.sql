-- refused: statement, outside_fence
TRUNCATE demo.t;
DROP TABLE org.members;
