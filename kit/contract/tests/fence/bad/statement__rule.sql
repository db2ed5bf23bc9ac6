-- refused: statement
CREATE RULE r AS ON INSERT TO demo.t DO INSTEAD NOTHING;
