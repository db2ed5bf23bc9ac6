ALTER INDEX demo.items_list RENAME TO items_all;
