-- A document's text and its words stand in the document's row, so that a search reads one row of each document that its
-- caller can reach. The company is among the words, behind a sign that no word holds, so that the index finds no other
-- company's documents. Words are separated and limited as before.
ALTER TABLE docs.documents ADD COLUMN body text;
UPDATE docs.documents SET body = c.body FROM docs.contents c WHERE c.document_id = documents.id;
DROP TABLE docs.contents;
ALTER TABLE docs.documents ALTER COLUMN body SET NOT NULL,
  ADD COLUMN search tsvector NOT NULL GENERATED ALWAYS AS (
    array_to_tsvector(ARRAY[':' || company_id::text])
      || setweight(to_tsvector('simple',
        translate(title, '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', '                                ')), 'A')
      || setweight(to_tsvector('simple',
        translate(left(body, 200000), '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', '                                ')), 'B')) STORED;
CREATE INDEX documents_words ON docs.documents USING gin (search);
