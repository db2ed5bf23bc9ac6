REVOKE DELETE ON demo.items FROM platform_demo;
