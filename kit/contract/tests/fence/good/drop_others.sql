DROP VIEW demo.v;
DROP INDEX demo.items_list;
DROP SEQUENCE demo.numbers;
DROP TYPE demo.state;
