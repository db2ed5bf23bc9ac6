INSERT INTO demo.copies(id, title) SELECT id, upper(title) FROM demo.items WHERE id NOT IN (SELECT id FROM demo.copies);
