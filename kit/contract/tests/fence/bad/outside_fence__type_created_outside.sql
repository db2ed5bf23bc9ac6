-- refused: outside_fence
CREATE TYPE org.state AS ENUM ('a');
