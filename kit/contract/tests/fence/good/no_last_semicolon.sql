CREATE TABLE demo.t(id uuid)
