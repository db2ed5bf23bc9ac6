-- refused: security_definer
CREATE OR REPLACE FUNCTION demo.f() RETURNS int LANGUAGE sql SECURITY DEFINER SET search_path = demo AS $$SELECT 1$$;
