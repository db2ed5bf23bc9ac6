-- refused: outside_fence
GRANT SELECT ON ALL TABLES IN SCHEMA org TO platform_demo;
