-- refused: outside_fence
ALTER TABLE demo.t RENAME TO org.t;
