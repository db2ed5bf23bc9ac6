-- refused: privilege
GRANT TRUNCATE ON demo.t TO platform_demo;
