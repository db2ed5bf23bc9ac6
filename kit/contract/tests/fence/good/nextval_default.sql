CREATE TABLE demo.items(number bigint NOT NULL DEFAULT nextval('demo.numbers'));
