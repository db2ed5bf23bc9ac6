-- tasks: rows that stand for tuples of authz, and the stored answers of idempotent operations.

CREATE TABLE tasks.tasks(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  title text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
  notes text NOT NULL CHECK (length(notes) <= 4000),
  status text NOT NULL CHECK (status IN ('open', 'done')),
  owner_sub text NOT NULL CHECK (length(owner_sub) BETWEEN 1 AND 255),
  created_at timestamptz NOT NULL DEFAULT now(),
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'active', 'revoking')),
  attempts int NOT NULL DEFAULT 0,
  attempted_at timestamptz NOT NULL DEFAULT now());
CREATE INDEX tasks_listed ON tasks.tasks(company_id, id DESC) WHERE state <> 'pending';
CREATE INDEX tasks_of_owner ON tasks.tasks(company_id, owner_sub, id DESC) WHERE state <> 'pending';
CREATE INDEX tasks_unsettled ON tasks.tasks(id) WHERE state <> 'active';
GRANT SELECT, INSERT, UPDATE, DELETE ON tasks.tasks TO platform_tasks;

-- Keys of idempotent operations.
CREATE TABLE tasks.idempotency_keys(
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
CREATE INDEX idempotency_keys_expiry ON tasks.idempotency_keys(expires_at);
-- What settles a row that stands for tuples answers the keys that name it.
CREATE INDEX idempotency_keys_unanswered ON tasks.idempotency_keys(company_id, resource_id) WHERE status IS NULL;
GRANT SELECT, INSERT, UPDATE, DELETE ON tasks.idempotency_keys TO platform_tasks;
