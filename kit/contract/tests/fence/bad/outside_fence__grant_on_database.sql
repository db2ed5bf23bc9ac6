-- refused: outside_fence
GRANT CREATE ON DATABASE platform TO platform_demo;
