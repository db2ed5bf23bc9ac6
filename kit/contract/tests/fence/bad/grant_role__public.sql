-- refused: grant_role
GRANT SELECT ON demo.t TO PUBLIC;
