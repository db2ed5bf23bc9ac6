-- refused: grant_role
GRANT SELECT ON demo.t TO "Platform_demo";
