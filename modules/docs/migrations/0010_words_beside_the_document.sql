-- A document's text and its words stand in the document's row, so that a search reads one row of each document that its
-- caller can reach. The company is among the words, behind a sign that no word holds, so that the index finds no other
-- company's documents. Words are separated and limited as before.
-- Rows of up to half a page are stored whole: words that are stored apart, or compressed, take a search twice as long.
ALTER TABLE docs.documents SET (toast_tuple_target = 4080);
ALTER TABLE docs.documents ADD COLUMN body text;
UPDATE docs.documents SET body = c.body FROM docs.contents c WHERE c.document_id = documents.id;
DROP TABLE docs.contents;
ALTER TABLE docs.documents ALTER COLUMN body SET NOT NULL,
  ADD COLUMN folded_title text NOT NULL GENERATED ALWAYS AS (lower(title)) STORED,
  ADD COLUMN search tsvector NOT NULL GENERATED ALWAYS AS (
    array_to_tsvector(ARRAY[':' || company_id::text])
      || setweight(to_tsvector('simple',
        translate(title, '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', '                                ')), 'A')
      || setweight(to_tsvector('simple',
        translate(left(body, 200000), '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', '                                ')), 'B')) STORED;
CREATE INDEX documents_words ON docs.documents USING gin (search);

-- Parts of titles are looked for without regard to case, which is prepared once. What a list or a search asks of each
-- document that its caller can reach is read from an index alone.
DROP INDEX docs.documents_of_owner;
DROP INDEX docs.documents_opened;
DROP INDEX docs.documents_of_folder;
DROP INDEX docs.documents_searched;
CREATE INDEX documents_of_owner ON docs.documents(company_id, owner_kc_sub, state, updated_at DESC, id)
  INCLUDE (general_access, folded_title, folder_id, is_template);
CREATE INDEX documents_opened ON docs.documents(company_id, updated_at DESC, id)
  INCLUDE (owner_kc_sub, folded_title, folder_id, is_template) WHERE general_access <> 'restricted' AND state = 'active';
CREATE INDEX documents_of_folder ON docs.documents(company_id, folder_id, state, general_access, updated_at DESC, id)
  INCLUDE (owner_kc_sub, folded_title, is_template) WHERE folder_id IS NOT NULL;
CREATE INDEX documents_reached ON docs.documents(company_id, id)
  INCLUDE (state, general_access, owner_kc_sub, updated_at, folder_id, is_template, folded_title);

-- A list of all documents skips the pages before it; comparing the state of each takes a fifth of that.
DROP INDEX docs.documents_listed;
CREATE INDEX documents_active ON docs.documents(company_id, updated_at DESC, id) WHERE state = 'active';
CREATE INDEX documents_trashed ON docs.documents(company_id, updated_at DESC, id) WHERE state = 'trashed';
