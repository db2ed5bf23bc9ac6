-- refused: security_definer
ALTER FUNCTION demo.f() SECURITY DEFINER;
