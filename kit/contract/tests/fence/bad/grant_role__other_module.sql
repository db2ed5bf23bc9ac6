-- refused: grant_role
GRANT SELECT ON demo.t TO platform_org;
