CREATE TABLE demo.counted(id bigserial PRIMARY KEY);
