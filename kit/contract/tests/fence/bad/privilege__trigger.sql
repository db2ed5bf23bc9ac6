-- refused: privilege
GRANT SELECT, TRIGGER ON demo.t TO platform_demo;
