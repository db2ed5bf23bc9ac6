-- refused: search_path
ALTER DATABASE platform SET search_path = org;
