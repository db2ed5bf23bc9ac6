-- refused: search_path
ALTER ROLE platform_demo SET search_path = org;
