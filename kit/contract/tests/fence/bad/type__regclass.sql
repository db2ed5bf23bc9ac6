-- refused: type
UPDATE demo.t SET a = 'org.members'::regclass;
