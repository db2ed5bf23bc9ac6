-- refused: statement
COMMENT ON ROLE platform_demo IS 'x';
