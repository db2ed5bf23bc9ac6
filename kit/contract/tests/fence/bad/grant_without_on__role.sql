-- refused: grant_without_on
GRANT platform_owner TO platform_demo;
