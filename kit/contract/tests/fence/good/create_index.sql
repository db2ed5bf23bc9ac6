CREATE INDEX items_list ON demo.items(company_id, updated_at DESC, id);
