-- refused: privilege
GRANT CREATE ON SCHEMA demo TO platform_demo;
