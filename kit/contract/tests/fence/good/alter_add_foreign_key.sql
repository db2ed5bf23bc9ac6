ALTER TABLE demo.items ADD CONSTRAINT of_parent FOREIGN KEY (parent_id) REFERENCES demo.items(id);
