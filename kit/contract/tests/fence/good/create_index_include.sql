CREATE INDEX IF NOT EXISTS items_seen ON demo.items(seen_at) INCLUDE (title);
