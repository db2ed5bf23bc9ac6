-- refused: type
CREATE TABLE demo.t(a text COLLATE org.mine);
