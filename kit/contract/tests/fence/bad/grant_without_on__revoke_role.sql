-- refused: grant_without_on
REVOKE platform_owner FROM platform_demo;
