-- refused: ownership
ALTER SCHEMA demo OWNER TO platform_demo;
