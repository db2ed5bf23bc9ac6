-- refused: statement
CREATE POLICY p ON demo.t USING (true);
