UPDATE demo.items SET hash = demo.digest(title, 'sha256');
