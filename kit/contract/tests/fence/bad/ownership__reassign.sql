-- refused: ownership
REASSIGN OWNED BY platform_owner TO platform_demo;
