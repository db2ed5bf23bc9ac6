-- A search reads what its caller may see with its titles: from the list's own indexes instead of looking each document up.
DROP INDEX docs.documents_of_owner;
DROP INDEX docs.documents_opened;
DROP INDEX docs.documents_of_folder;
CREATE INDEX documents_of_owner ON docs.documents(company_id, owner_kc_sub, state, updated_at DESC, id)
  INCLUDE (general_access, title, folder_id, is_template);
CREATE INDEX documents_opened ON docs.documents(company_id, updated_at DESC, id)
  INCLUDE (owner_kc_sub, title, folder_id, is_template) WHERE general_access <> 'restricted' AND state = 'active';
CREATE INDEX documents_of_folder ON docs.documents(company_id, folder_id, state, general_access, id)
  INCLUDE (updated_at, owner_kc_sub, title, is_template) WHERE folder_id IS NOT NULL;
