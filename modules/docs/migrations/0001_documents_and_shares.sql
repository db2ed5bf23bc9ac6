-- docs: documents, their versions, and with whom each is shared.

CREATE TABLE docs.documents(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  title text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
  current_version int NOT NULL DEFAULT 0 CHECK (current_version >= 0),
  owner_kc_sub text NOT NULL,
  owner_member_id uuid NOT NULL,
  transfer_to text,
  general_access text NOT NULL DEFAULT 'restricted'
    CHECK (general_access IN ('restricted', 'company_view', 'company_edit')),
  editors_can_share boolean NOT NULL DEFAULT true,
  state text NOT NULL CHECK (state IN ('provisioning', 'active', 'trashed')),
  trashed_at timestamptz,
  trashed_by text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  updated_by text NOT NULL,
  UNIQUE (company_id, id),
  CHECK ((state = 'trashed') = (trashed_at IS NOT NULL)),
  CHECK (state = 'provisioning' OR current_version >= 1));
CREATE INDEX documents_owner ON docs.documents(company_id, owner_kc_sub, updated_at DESC);
CREATE INDEX documents_open ON docs.documents(company_id, updated_at DESC)
  WHERE general_access <> 'restricted' AND state = 'active';
CREATE INDEX documents_all ON docs.documents(company_id, state, updated_at DESC);
-- A document that never left 'provisioning' is swept; no other is removed.
GRANT SELECT, INSERT, UPDATE, DELETE ON docs.documents TO platform_docs;

-- Full copies, added and never changed.
CREATE TABLE docs.versions(
  document_id uuid NOT NULL REFERENCES docs.documents(id),
  version int NOT NULL CHECK (version >= 1),
  title text NOT NULL,
  body text NOT NULL CHECK (length(body) <= 500000),
  author text NOT NULL,
  restored_from int,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (document_id, version),
  CHECK (restored_from < version));
GRANT SELECT, INSERT ON docs.versions TO platform_docs;

-- The module's own index of whom a document is shared with; the tuples in authz are the authority.
CREATE TABLE docs.shares(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  document_id uuid NOT NULL,
  principal_kind text NOT NULL CHECK (principal_kind IN ('member', 'position', 'group')),
  member_id uuid,
  position_id uuid,
  group_id uuid,
  kc_sub text,
  label text,
  role text NOT NULL CHECK (role IN ('viewer', 'editor')),
  state text NOT NULL CHECK (state IN ('pending', 'active', 'revoking')),
  granted_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (num_nonnulls(member_id, position_id, group_id) = 1),
  CHECK ((principal_kind = 'member') = (member_id IS NOT NULL)),
  CHECK ((principal_kind = 'position') = (position_id IS NOT NULL)),
  CHECK ((principal_kind = 'member') = (kc_sub IS NOT NULL)),
  FOREIGN KEY (company_id, document_id) REFERENCES docs.documents(company_id, id));
CREATE UNIQUE INDEX shares_member ON docs.shares(document_id, member_id) WHERE member_id IS NOT NULL;
CREATE UNIQUE INDEX shares_position ON docs.shares(document_id, position_id) WHERE position_id IS NOT NULL;
CREATE UNIQUE INDEX shares_group ON docs.shares(document_id, group_id) WHERE group_id IS NOT NULL;
CREATE INDEX shares_by_member ON docs.shares(company_id, member_id) WHERE member_id IS NOT NULL;
CREATE INDEX shares_by_position ON docs.shares(company_id, position_id) WHERE position_id IS NOT NULL;
CREATE INDEX shares_by_group ON docs.shares(company_id, group_id) WHERE group_id IS NOT NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON docs.shares TO platform_docs;

-- Keys of idempotent operations: the first answer is stored in the transaction that did the work.
CREATE TABLE docs.idempotency_keys(
  company_id uuid NOT NULL,
  operation text NOT NULL,
  actor text NOT NULL,
  idem_key text NOT NULL CHECK (length(idem_key) BETWEEN 1 AND 200),
  fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
  status smallint,
  response jsonb,
  resource_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (company_id, operation, actor, idem_key));
CREATE INDEX idempotency_keys_expiry ON docs.idempotency_keys(expires_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON docs.idempotency_keys TO platform_docs;
