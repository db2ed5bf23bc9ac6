-- helpdesk: tickets, their comments, and who administers the module in a company.

CREATE TABLE helpdesk.tickets(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  title text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
  description text NOT NULL CHECK (length(description) <= 20000),
  status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'in_progress', 'resolved', 'closed')),
  reporter_member_id uuid NOT NULL,
  reporter_kc_sub text NOT NULL,
  assignee_kind text CHECK (assignee_kind IN ('member', 'position', 'group')),
  assignee_member_id uuid,
  assignee_position_id uuid,
  assignee_group_id uuid,
  -- Name or title of the assignee when it was assigned.
  assignee_label text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, id),
  CHECK (num_nonnulls(assignee_member_id, assignee_position_id, assignee_group_id)
    = CASE WHEN assignee_kind IS NULL THEN 0 ELSE 1 END),
  CHECK ((assignee_kind IS NOT DISTINCT FROM 'member') = (assignee_member_id IS NOT NULL)),
  CHECK ((assignee_kind IS NOT DISTINCT FROM 'position') = (assignee_position_id IS NOT NULL)));
CREATE INDEX tickets_list ON helpdesk.tickets(company_id, updated_at DESC, id);
CREATE INDEX tickets_status ON helpdesk.tickets(company_id, status, updated_at DESC);
CREATE INDEX tickets_reporter ON helpdesk.tickets(company_id, reporter_member_id, updated_at DESC);
CREATE INDEX tickets_am ON helpdesk.tickets(company_id, assignee_member_id)
  WHERE assignee_member_id IS NOT NULL;
CREATE INDEX tickets_ap ON helpdesk.tickets(company_id, assignee_position_id)
  WHERE assignee_position_id IS NOT NULL;
CREATE INDEX tickets_ag ON helpdesk.tickets(company_id, assignee_group_id)
  WHERE assignee_group_id IS NOT NULL;
GRANT SELECT, INSERT, UPDATE ON helpdesk.tickets TO platform_helpdesk;

-- Comments are added, never changed.
CREATE TABLE helpdesk.comments(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  ticket_id uuid NOT NULL,
  author_kc_sub text NOT NULL,
  body text NOT NULL CHECK (length(body) BETWEEN 1 AND 10000),
  created_at timestamptz NOT NULL DEFAULT now(),
  FOREIGN KEY (company_id, ticket_id) REFERENCES helpdesk.tickets(company_id, id));
CREATE INDEX comments_ticket ON helpdesk.comments(ticket_id, created_at, id);
GRANT SELECT, INSERT ON helpdesk.comments TO platform_helpdesk;

CREATE TABLE helpdesk.bindings(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  binding_kind text NOT NULL CHECK (binding_kind IN ('member', 'position', 'group')),
  member_id uuid,
  position_id uuid,
  group_id uuid,
  kc_sub text,
  label text,
  tier text NOT NULL DEFAULT 'admin' CHECK (tier IN ('editor', 'admin')),
  state text NOT NULL CHECK (state IN ('pending', 'active', 'revoking')),
  granted_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (num_nonnulls(member_id, position_id, group_id) = 1),
  CHECK ((binding_kind = 'member') = (member_id IS NOT NULL)),
  CHECK ((binding_kind = 'position') = (position_id IS NOT NULL)),
  CHECK ((binding_kind = 'member') = (kc_sub IS NOT NULL)));
CREATE UNIQUE INDEX bindings_member ON helpdesk.bindings(company_id, member_id, tier)
  WHERE member_id IS NOT NULL;
CREATE UNIQUE INDEX bindings_position ON helpdesk.bindings(company_id, position_id, tier)
  WHERE position_id IS NOT NULL;
CREATE UNIQUE INDEX bindings_group ON helpdesk.bindings(company_id, group_id, tier)
  WHERE group_id IS NOT NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON helpdesk.bindings TO platform_helpdesk;

-- One row a company from its first administrator binding on; counts those with state 'active' and tier 'admin'. The
-- check is what keeps the last one.
CREATE TABLE helpdesk.admin_guard(
  company_id uuid PRIMARY KEY,
  active_bindings int NOT NULL CHECK (active_bindings >= 1));
GRANT SELECT, INSERT, UPDATE ON helpdesk.admin_guard TO platform_helpdesk;

-- Keys of idempotent operations: the first answer is stored in the transaction that did the work.
CREATE TABLE helpdesk.idempotency_keys(
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
CREATE INDEX idempotency_keys_expiry ON helpdesk.idempotency_keys(expires_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON helpdesk.idempotency_keys TO platform_helpdesk;
