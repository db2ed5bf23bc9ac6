UPDATE demo.items SET title = btrim(title), note = coalesce(note, '') WHERE title <> btrim(title);
