CREATE VIEW demo.v AS SELECT id, row_number() OVER (PARTITION BY company_id ORDER BY created_at) FROM demo.items;
