-- refused: unqualified
DROP INDEX items_list;
