-- A column that the server computes from its row: words of a title above those of a text.
CREATE TABLE demo.pages(
  id uuid PRIMARY KEY,
  title text NOT NULL,
  body text NOT NULL,
  search tsvector NOT NULL GENERATED ALWAYS AS (
    setweight(to_tsvector('simple', title), 'A') || setweight(to_tsvector('simple', left(body, 1000)), 'B')) STORED);
CREATE INDEX pages_search ON demo.pages USING gin (search);
