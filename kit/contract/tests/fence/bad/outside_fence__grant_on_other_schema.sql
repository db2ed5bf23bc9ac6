-- refused: outside_fence
GRANT USAGE ON SCHEMA org TO platform_demo;
