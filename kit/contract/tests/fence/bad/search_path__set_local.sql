-- refused: search_path
SET LOCAL search_path TO demo, public;
