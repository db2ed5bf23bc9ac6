CREATE TABLE demo.codes(code text COLLATE "C" NOT NULL UNIQUE);
