UPDATE demo.items SET n = (SELECT count(*) FROM demo.parts p WHERE p.item_id = items.id);
