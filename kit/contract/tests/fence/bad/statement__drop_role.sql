-- refused: statement
DROP ROLE platform_org;
