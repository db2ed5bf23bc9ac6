-- refused: search_path
UPDATE demo.t SET a = pg_catalog.set_config('x.y', 'org', false);
