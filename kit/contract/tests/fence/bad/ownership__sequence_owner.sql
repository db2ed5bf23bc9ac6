-- refused: ownership
ALTER SEQUENCE demo.s OWNER TO platform_demo;
