-- refused: outside_fence
UPDATE demo.t SET a = b::org.state;
