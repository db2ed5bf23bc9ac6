UPDATE demo.items SET data = data - 'old' || jsonb_build_object('new', data -> 'old') WHERE data ? 'old';
