-- docs: rights that folders give, and that are taken away while a call is under way.

-- Counts the changes that may take somebody's rights to the folder and to what lies in it: of its shares, and of the
-- folder that it lies in. A decision about a document is made for one state of all folders around it.
ALTER TABLE docs.folders ADD COLUMN rights_version bigint NOT NULL DEFAULT 0;

-- A page of comments, and how many there are, are read without their texts.
DROP INDEX docs.comments_listed;
CREATE INDEX comments_listed ON docs.comments(document_id, created_at, id) INCLUDE (company_id, resolved_at);

-- The documents of a folder in the order of lists.
DROP INDEX docs.documents_of_folder;
CREATE INDEX documents_of_folder ON docs.documents(company_id, folder_id, state, general_access, updated_at DESC, id)
  INCLUDE (owner_kc_sub, title, is_template) WHERE folder_id IS NOT NULL;
