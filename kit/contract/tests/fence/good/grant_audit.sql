GRANT INSERT, SELECT ON audit.demo__events TO platform_demo;
