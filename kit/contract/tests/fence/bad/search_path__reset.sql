-- refused: search_path
RESET search_path;
