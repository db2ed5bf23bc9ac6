-- refused: outside_fence
GRANT SELECT ON org.members TO platform_demo;
