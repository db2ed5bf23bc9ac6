CREATE INDEX items_tags ON demo.items USING gin (tags jsonb_path_ops);
