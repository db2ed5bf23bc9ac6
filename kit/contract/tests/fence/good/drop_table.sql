DROP TABLE demo.items;
