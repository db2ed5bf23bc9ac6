-- refused: statement
ALTER ROLE platform_demo SUPERUSER;
