-- refused: outside_fence
CREATE TABLE demo.t(a org.state);
