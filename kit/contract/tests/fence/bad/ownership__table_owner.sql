-- refused: ownership
ALTER TABLE demo.t OWNER TO platform_demo;
