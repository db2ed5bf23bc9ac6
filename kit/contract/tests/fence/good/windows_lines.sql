CREATE TABLE demo.t(id uuid);
DROP TABLE demo.t;
