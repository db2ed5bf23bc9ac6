-- refused: function_call
CREATE VIEW demo.v AS SELECT query_to_xml('SELECT 1', true, true, '');
