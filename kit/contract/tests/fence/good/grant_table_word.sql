GRANT SELECT ON TABLE demo.items, demo.kinds TO platform_demo;
