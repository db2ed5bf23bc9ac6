-- refused: type
CREATE TABLE demo.t(a oid);
