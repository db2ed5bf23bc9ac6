GRANT UPDATE (title, note) ON demo.items TO platform_demo;
