-- refused: ownership
ALTER VIEW demo.v OWNER TO platform_demo;
