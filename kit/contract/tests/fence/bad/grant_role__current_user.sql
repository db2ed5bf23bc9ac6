-- refused: grant_role
GRANT SELECT ON demo.t TO CURRENT_USER;
