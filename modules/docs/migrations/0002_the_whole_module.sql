-- docs: the current text and its words, folders, ownership that changes hands, comments, requests for access.

-- Rows that stand for tuples of authz (`service::two_store`). Nothing deletes a document, so the states 'deleting' and
-- 'exchanging' of the driver never stand in the table.
ALTER TABLE docs.documents
  ADD COLUMN attempts int NOT NULL DEFAULT 0,
  ADD COLUMN attempted_at timestamptz NOT NULL DEFAULT now(),
  ADD COLUMN owner_label text,
  ADD COLUMN is_template boolean NOT NULL DEFAULT false,
  ADD COLUMN folder_id uuid;
CREATE INDEX documents_unsettled ON docs.documents(id) WHERE state IN ('provisioning', 'deleting', 'exchanging');
CREATE INDEX documents_folder ON docs.documents(company_id, folder_id) WHERE folder_id IS NOT NULL;

-- A document that never left 'provisioning' is removed with its first version.
ALTER TABLE docs.versions
  DROP CONSTRAINT versions_document_id_fkey,
  ADD CONSTRAINT versions_document FOREIGN KEY (document_id) REFERENCES docs.documents(id) ON DELETE CASCADE,
  ADD COLUMN size int NOT NULL GENERATED ALWAYS AS (length(body)) STORED;

-- The current text of each document, and its words: those of the title above those of the text, of which the first
-- 200,000 characters are searched (a text vector holds 1 MiB).
CREATE TABLE docs.contents(
  document_id uuid PRIMARY KEY REFERENCES docs.documents(id) ON DELETE CASCADE,
  company_id uuid NOT NULL,
  title text NOT NULL,
  body text NOT NULL CHECK (length(body) <= 500000),
  search tsvector NOT NULL GENERATED ALWAYS AS (
    setweight(to_tsvector('simple', title), 'A')
      || setweight(to_tsvector('simple', left(body, 200000)), 'B')) STORED);
CREATE INDEX contents_search ON docs.contents USING gin (search);
GRANT SELECT, INSERT, UPDATE ON docs.contents TO platform_docs;
INSERT INTO docs.contents(document_id, company_id, title, body)
  SELECT d.id, d.company_id, d.title, v.body
  FROM docs.documents d JOIN docs.versions v ON v.document_id = d.id AND v.version = d.current_version;

-- Folders, at most 8 deep. `parent_id` and `documents.folder_id` follow `placements`.
CREATE TABLE docs.folders(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  parent_id uuid,
  owner_kc_sub text NOT NULL,
  owner_member_id uuid NOT NULL,
  owner_label text,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'active', 'revoking')),
  attempts int NOT NULL DEFAULT 0,
  attempted_at timestamptz NOT NULL DEFAULT now(),
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, id),
  FOREIGN KEY (company_id, parent_id) REFERENCES docs.folders(company_id, id));
CREATE INDEX folders_owner ON docs.folders(company_id, owner_kc_sub);
CREATE INDEX folders_parent ON docs.folders(company_id, parent_id, name);
CREATE INDEX folders_unsettled ON docs.folders(id) WHERE state <> 'active';
GRANT SELECT, INSERT, UPDATE, DELETE ON docs.folders TO platform_docs;
ALTER TABLE docs.documents
  ADD CONSTRAINT documents_folder FOREIGN KEY (company_id, folder_id) REFERENCES docs.folders(company_id, id);

-- Each folder with every folder around it, itself at distance 0: the index of what a share of a folder opens.
CREATE TABLE docs.folder_ancestors(
  company_id uuid NOT NULL,
  folder_id uuid NOT NULL,
  ancestor_id uuid NOT NULL,
  distance int NOT NULL CHECK (distance BETWEEN 0 AND 7),
  PRIMARY KEY (folder_id, ancestor_id),
  FOREIGN KEY (company_id, folder_id) REFERENCES docs.folders(company_id, id) ON DELETE CASCADE);
CREATE INDEX folder_ancestors_within ON docs.folder_ancestors(ancestor_id, folder_id);
GRANT SELECT, INSERT, UPDATE, DELETE ON docs.folder_ancestors TO platform_docs;

-- What lies in which folder: one row stands for one `parent` tuple.
CREATE TABLE docs.placements(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  document_id uuid,
  folder_id uuid,
  parent_id uuid NOT NULL,
  next_parent_id uuid,
  state text NOT NULL CHECK (state IN ('pending', 'active', 'revoking', 'exchanging')),
  attempts int NOT NULL DEFAULT 0,
  attempted_at timestamptz NOT NULL DEFAULT now(),
  CHECK (num_nonnulls(document_id, folder_id) = 1),
  FOREIGN KEY (company_id, document_id) REFERENCES docs.documents(company_id, id) ON DELETE CASCADE,
  FOREIGN KEY (company_id, folder_id) REFERENCES docs.folders(company_id, id) ON DELETE CASCADE,
  FOREIGN KEY (company_id, parent_id) REFERENCES docs.folders(company_id, id),
  FOREIGN KEY (company_id, next_parent_id) REFERENCES docs.folders(company_id, id));
CREATE UNIQUE INDEX placements_document ON docs.placements(document_id) WHERE document_id IS NOT NULL;
CREATE UNIQUE INDEX placements_folder ON docs.placements(folder_id) WHERE folder_id IS NOT NULL;
CREATE INDEX placements_parent ON docs.placements(parent_id);
CREATE INDEX placements_next ON docs.placements(next_parent_id) WHERE next_parent_id IS NOT NULL;
CREATE INDEX placements_unsettled ON docs.placements(id) WHERE state <> 'active';
GRANT SELECT, INSERT, UPDATE, DELETE ON docs.placements TO platform_docs;

-- A share is of a document or of a folder; its role may change, and a commenter stands between viewer and editor.
ALTER TABLE docs.shares
  ALTER COLUMN document_id DROP NOT NULL,
  ADD COLUMN folder_id uuid,
  ADD COLUMN next_role text CHECK (next_role IN ('viewer', 'commenter', 'editor')),
  ADD COLUMN attempts int NOT NULL DEFAULT 0,
  ADD COLUMN attempted_at timestamptz NOT NULL DEFAULT now(),
  DROP CONSTRAINT shares_role_check,
  ADD CONSTRAINT shares_role CHECK (role IN ('viewer', 'commenter', 'editor')),
  DROP CONSTRAINT shares_state_check,
  ADD CONSTRAINT shares_state CHECK (state IN ('pending', 'active', 'revoking', 'exchanging')),
  ADD CONSTRAINT shares_target CHECK (num_nonnulls(document_id, folder_id) = 1),
  ADD CONSTRAINT shares_folder FOREIGN KEY (company_id, folder_id) REFERENCES docs.folders(company_id, id)
    ON DELETE CASCADE;
CREATE UNIQUE INDEX shares_folder_member ON docs.shares(folder_id, member_id)
  WHERE folder_id IS NOT NULL AND member_id IS NOT NULL;
CREATE UNIQUE INDEX shares_folder_position ON docs.shares(folder_id, position_id)
  WHERE folder_id IS NOT NULL AND position_id IS NOT NULL;
CREATE UNIQUE INDEX shares_folder_group ON docs.shares(folder_id, group_id)
  WHERE folder_id IS NOT NULL AND group_id IS NOT NULL;
CREATE INDEX shares_of_document ON docs.shares(document_id, created_at, id) WHERE document_id IS NOT NULL;
CREATE INDEX shares_of_folder ON docs.shares(folder_id, created_at, id) WHERE folder_id IS NOT NULL;
CREATE INDEX shares_unsettled ON docs.shares(id) WHERE state <> 'active';

-- Owners while ownership changes hands: the new one from before its tuple is granted, the former one until its tuple is
-- taken. The owner of a document stands in `documents`.
CREATE TABLE docs.ownerships(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  document_id uuid NOT NULL,
  kc_sub text NOT NULL,
  member_id uuid NOT NULL,
  label text,
  as_manager boolean NOT NULL DEFAULT false,
  state text NOT NULL CHECK (state IN ('pending', 'active', 'revoking')),
  attempts int NOT NULL DEFAULT 0,
  attempted_at timestamptz NOT NULL DEFAULT now(),
  FOREIGN KEY (company_id, document_id) REFERENCES docs.documents(company_id, id) ON DELETE CASCADE);
CREATE UNIQUE INDEX ownerships_document ON docs.ownerships(document_id, kc_sub);
CREATE INDEX ownerships_unsettled ON docs.ownerships(id) WHERE state <> 'active';
GRANT SELECT, INSERT, UPDATE, DELETE ON docs.ownerships TO platform_docs;

CREATE TABLE docs.comments(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  document_id uuid NOT NULL,
  version int NOT NULL CHECK (version >= 1),
  body text NOT NULL CHECK (length(body) BETWEEN 1 AND 10000),
  author text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  resolved_at timestamptz,
  resolved_by text,
  CHECK ((resolved_at IS NULL) = (resolved_by IS NULL)),
  FOREIGN KEY (company_id, document_id) REFERENCES docs.documents(company_id, id) ON DELETE CASCADE);
CREATE INDEX comments_listed ON docs.comments(document_id, created_at, id);
GRANT SELECT, INSERT, UPDATE ON docs.comments TO platform_docs;

-- One open request a person and document.
CREATE TABLE docs.access_requests(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  document_id uuid NOT NULL,
  member_id uuid NOT NULL,
  kc_sub text NOT NULL,
  role text NOT NULL CHECK (role IN ('viewer', 'commenter', 'editor')),
  note text NOT NULL CHECK (length(note) <= 1000),
  state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'accepted', 'declined')),
  created_at timestamptz NOT NULL DEFAULT now(),
  decided_at timestamptz,
  decided_by text,
  CHECK ((state = 'open') = (decided_at IS NULL)),
  CHECK ((decided_at IS NULL) = (decided_by IS NULL)),
  FOREIGN KEY (company_id, document_id) REFERENCES docs.documents(company_id, id) ON DELETE CASCADE);
CREATE UNIQUE INDEX access_requests_open ON docs.access_requests(document_id, member_id) WHERE state = 'open';
CREATE INDEX access_requests_listed ON docs.access_requests(document_id, created_at, id);
GRANT SELECT, INSERT, UPDATE ON docs.access_requests TO platform_docs;
