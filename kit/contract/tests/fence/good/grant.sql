GRANT SELECT, INSERT, UPDATE, DELETE ON demo.items TO platform_demo;
