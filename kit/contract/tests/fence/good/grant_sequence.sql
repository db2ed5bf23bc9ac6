GRANT USAGE, SELECT ON SEQUENCE demo.numbers TO platform_demo;
