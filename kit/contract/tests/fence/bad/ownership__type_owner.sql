-- refused: ownership
ALTER TYPE demo.state OWNER TO platform_demo;
