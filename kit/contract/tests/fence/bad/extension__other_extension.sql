-- refused: extension
CREATE EXTENSION btree_gist;
