CREATE VIEW demo.open_items AS SELECT i.id, i.title FROM demo.items i WHERE i.closed_at IS NULL;
