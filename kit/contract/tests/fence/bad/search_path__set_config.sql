-- refused: search_path
UPDATE demo.t SET a = set_config('search_path', 'org', false);
