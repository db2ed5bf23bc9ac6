-- refused: privilege
GRANT ALL PRIVILEGES ON demo.t TO platform_demo;
