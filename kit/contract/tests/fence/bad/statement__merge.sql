-- refused: statement
MERGE INTO demo.t USING demo.s ON t.id = s.id WHEN MATCHED THEN DELETE;
