-- refused: clause
CREATE VIEW demo.v AS SELECT * FROM (TABLE org.members) x;
