INSERT INTO audit.demo__events(actor, action, subject) VALUES ('system:migration', 'items.copied', 'item:*');
