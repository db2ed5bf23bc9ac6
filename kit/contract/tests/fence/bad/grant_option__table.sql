-- refused: grant_option
GRANT SELECT ON demo.t TO platform_demo WITH GRANT OPTION;
