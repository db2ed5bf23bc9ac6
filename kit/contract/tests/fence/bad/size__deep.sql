-- refused: size
CREATE VIEW demo.v AS SELECT (((((((((((((1)))))))))))));
