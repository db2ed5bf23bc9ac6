DELETE FROM demo.items WHERE kind = ANY (ARRAY['a', 'b']) OR title ILIKE 'x%' OR title SIMILAR TO 'y%';
