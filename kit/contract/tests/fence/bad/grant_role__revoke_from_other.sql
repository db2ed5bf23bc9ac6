-- refused: grant_role
REVOKE SELECT ON demo.t FROM platform_org;
