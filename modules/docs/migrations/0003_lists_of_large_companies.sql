-- docs: lists and searches of large companies.

-- How many documents of a company are active, how many of those general access opens, and how many are in the trash. Changed
-- in the transaction that changes the documents.
CREATE TABLE docs.document_counts(
  company_id uuid PRIMARY KEY,
  active bigint NOT NULL CHECK (active >= 0),
  open bigint NOT NULL CHECK (open BETWEEN 0 AND active),
  trashed bigint NOT NULL CHECK (trashed >= 0));
GRANT SELECT, INSERT, UPDATE ON docs.document_counts TO platform_docs;
INSERT INTO docs.document_counts(company_id, active, open, trashed)
  SELECT company_id, count(*) FILTER (WHERE state = 'active'),
    count(*) FILTER (WHERE state = 'active' AND general_access <> 'restricted'), count(*) FILTER (WHERE state = 'trashed')
  FROM docs.documents GROUP BY company_id;

-- Each list reads its documents in its own order.
DROP INDEX docs.documents_owner;
DROP INDEX docs.documents_open;
DROP INDEX docs.documents_all;
DROP INDEX docs.documents_folder;
CREATE INDEX documents_of_owner ON docs.documents(company_id, owner_kc_sub, state, updated_at DESC, id)
  INCLUDE (general_access);
CREATE INDEX documents_opened ON docs.documents(company_id, updated_at DESC, id) INCLUDE (owner_kc_sub)
  WHERE general_access <> 'restricted' AND state = 'active';
CREATE INDEX documents_listed ON docs.documents(company_id, state, updated_at DESC, id);
CREATE INDEX documents_of_folder ON docs.documents(company_id, folder_id, state, general_access, id)
  INCLUDE (updated_at, owner_kc_sub) WHERE folder_id IS NOT NULL;
CREATE INDEX documents_templates ON docs.documents(company_id, state, updated_at DESC, id) WHERE is_template;
-- What a search asks of each document that its caller may see.
CREATE INDEX documents_searched ON docs.documents(company_id, id)
  INCLUDE (title, state, owner_kc_sub, updated_at, folder_id, is_template);

-- What is shared with somebody is read from the index alone. Only shares whose tuple surely stands: of those that change, the
-- ones that come to give more.
DROP INDEX docs.shares_by_member;
DROP INDEX docs.shares_by_position;
DROP INDEX docs.shares_by_group;
CREATE INDEX shares_with_member ON docs.shares(company_id, member_id, kc_sub) INCLUDE (document_id, folder_id)
  WHERE member_id IS NOT NULL AND state IN ('active', 'exchanging')
    AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor');
CREATE INDEX shares_with_position ON docs.shares(company_id, position_id) INCLUDE (document_id, folder_id)
  WHERE position_id IS NOT NULL AND state IN ('active', 'exchanging')
    AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor');
CREATE INDEX shares_with_group ON docs.shares(company_id, group_id) INCLUDE (document_id, folder_id)
  WHERE group_id IS NOT NULL AND state IN ('active', 'exchanging')
    AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor');

-- Folders that are on their way into a folder, among many documents that lie in it.
CREATE INDEX placements_folders_unsettled ON docs.placements(parent_id) WHERE folder_id IS NOT NULL AND state <> 'active';

-- The answer of a key whose row another request or the sweep settled is stored by that row.
CREATE INDEX idempotency_keys_unanswered ON docs.idempotency_keys(company_id, resource_id) WHERE status IS NULL;
