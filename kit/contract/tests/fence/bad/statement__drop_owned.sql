-- refused: statement
DROP OWNED BY platform_demo;
