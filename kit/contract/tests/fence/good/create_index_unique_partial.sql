CREATE UNIQUE INDEX items_key ON demo.items(company_id, lower(key)) WHERE deleted_at IS NULL;
