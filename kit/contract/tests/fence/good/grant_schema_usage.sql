GRANT USAGE ON SCHEMA demo TO platform_demo;
