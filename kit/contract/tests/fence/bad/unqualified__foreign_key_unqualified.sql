-- refused: unqualified
CREATE TABLE demo.t(id uuid REFERENCES parents);
