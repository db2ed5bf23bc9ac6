ALTER TABLE demo.items SET (toast_tuple_target = 4080, fillfactor = 90);
