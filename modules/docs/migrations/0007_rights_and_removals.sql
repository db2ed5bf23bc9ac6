-- docs: writes after a right was taken away, and removals of shares that broke off.

-- Counts the changes that may take somebody's rights to the document. A decision is made for one number, and a write compares
-- it under the document's lock.
ALTER TABLE docs.documents ADD COLUMN rights_version bigint NOT NULL DEFAULT 0;

-- Who began to remove the share, and for what reason if not by choice: for the audit row, whoever finishes the removal.
ALTER TABLE docs.shares ADD COLUMN revoked_by text, ADD COLUMN revoked_for text;

-- A share that is being removed is listed until its tuple is surely gone.
DROP INDEX docs.shares_with_member;
DROP INDEX docs.shares_with_position;
DROP INDEX docs.shares_with_group;
CREATE INDEX shares_with_member ON docs.shares(company_id, member_id, kc_sub) INCLUDE (document_id, folder_id)
  WHERE member_id IS NOT NULL AND state <> 'pending'
    AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor');
CREATE INDEX shares_with_position ON docs.shares(company_id, position_id) INCLUDE (document_id, folder_id)
  WHERE position_id IS NOT NULL AND state <> 'pending'
    AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor');
CREATE INDEX shares_with_group ON docs.shares(company_id, group_id) INCLUDE (document_id, folder_id)
  WHERE group_id IS NOT NULL AND state <> 'pending'
    AND (next_role IS NULL OR role = 'viewer' OR next_role = 'editor');

-- Removals that wait for a request, because authz needs a member's bearer for them.
CREATE INDEX shares_to_remove ON docs.shares(company_id) WHERE state = 'revoking' AND member_id IS NULL;
