-- refused: statement
DO $$ BEGIN PERFORM 1; END $$;
