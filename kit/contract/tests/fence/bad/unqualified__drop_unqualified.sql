-- refused: unqualified
DROP TABLE items;
