-- refused: search_path
SET search_path = demo;
