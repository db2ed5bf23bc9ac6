-- Each text enters its words itself. By default the server collects them, and the next write, however short, enters
-- those of all earlier ones within its own time limit.
DROP INDEX docs.documents_words;
CREATE INDEX documents_words ON docs.documents USING gin (search) WITH (fastupdate = off);
