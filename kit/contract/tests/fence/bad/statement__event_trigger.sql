-- refused: statement
CREATE EVENT TRIGGER t ON ddl_command_end EXECUTE FUNCTION demo.f();
