-- notification: channels, who listens to them, messages and who read them, and the outbox of deliveries.

CREATE TABLE notification.channels(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  key text NOT NULL CHECK (length(key) BETWEEN 1 AND 64),
  label text NOT NULL CHECK (length(label) BETWEEN 1 AND 100),
  kind text NOT NULL CHECK (kind IN ('in_app', 'email', 'webhook')),
  target text CHECK (length(target) <= 2048),
  disabled_reason text,
  deleted_at timestamptz,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, id),
  CHECK (kind <> 'webhook' OR target IS NOT NULL),
  CHECK (kind <> 'in_app' OR target IS NULL));
CREATE UNIQUE INDEX channels_key ON notification.channels(company_id, lower(key)) WHERE deleted_at IS NULL;
GRANT SELECT, INSERT, UPDATE ON notification.channels TO platform_notification;

-- Signing secrets of webhooks, apart from the channel so that no list can show them.
CREATE TABLE notification.channel_secrets(
  channel_id uuid PRIMARY KEY REFERENCES notification.channels(id),
  secret bytea NOT NULL,
  sealed boolean NOT NULL,
  previous_secret bytea,
  previous_expires_at timestamptz,
  CHECK ((previous_secret IS NULL) = (previous_expires_at IS NULL)));
GRANT SELECT, INSERT, UPDATE ON notification.channel_secrets TO platform_notification;

CREATE TABLE notification.subscriptions(
  company_id uuid NOT NULL,
  channel_id uuid NOT NULL,
  member_id uuid NOT NULL,
  email text CHECK (length(email) <= 254),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (channel_id, member_id),
  FOREIGN KEY (company_id, channel_id) REFERENCES notification.channels(company_id, id));
GRANT SELECT, INSERT, UPDATE ON notification.subscriptions TO platform_notification;

-- Messages are kept and never changed.
CREATE TABLE notification.messages(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  channel_id uuid NOT NULL,
  subject_line text NOT NULL CHECK (length(subject_line) BETWEEN 1 AND 200 AND subject_line !~ '[[:cntrl:]]'),
  body text NOT NULL CHECK (length(body) BETWEEN 1 AND 10000),
  created_by text NOT NULL,
  source_module text,
  event_type text,
  dedupe_key text,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, id),
  FOREIGN KEY (company_id, channel_id) REFERENCES notification.channels(company_id, id));
CREATE INDEX messages_list ON notification.messages(company_id, created_at DESC, id);
CREATE INDEX messages_channel ON notification.messages(channel_id, created_at DESC);
CREATE UNIQUE INDEX messages_dedupe ON notification.messages(company_id, source_module, dedupe_key)
  WHERE dedupe_key IS NOT NULL;
GRANT SELECT, INSERT ON notification.messages TO platform_notification;

CREATE TABLE notification.message_reads(
  message_id uuid NOT NULL REFERENCES notification.messages(id),
  kc_sub text NOT NULL,
  read_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (message_id, kc_sub));
GRANT SELECT, INSERT ON notification.message_reads TO platform_notification;

-- The outbox: one job a recipient, made with its message; its payload never changes.
CREATE TABLE notification.delivery_jobs(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  message_id uuid NOT NULL REFERENCES notification.messages(id),
  channel_id uuid NOT NULL REFERENCES notification.channels(id),
  kind text NOT NULL CHECK (kind IN ('email', 'webhook')),
  target text NOT NULL,
  payload text NOT NULL,
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'dead')),
  claim_group text NOT NULL DEFAULT 'default',
  attempt_count int NOT NULL DEFAULT 0 CHECK (attempt_count BETWEEN 0 AND 100),
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  lease_token uuid,
  leased_until timestamptz,
  last_status int,
  error_class text,
  created_at timestamptz NOT NULL DEFAULT now(),
  settled_at timestamptz,
  UNIQUE (message_id, kind, target),
  CHECK ((state = 'pending') = (settled_at IS NULL)),
  CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
  CHECK (state = 'pending' OR lease_token IS NULL));
CREATE INDEX delivery_jobs_due ON notification.delivery_jobs(claim_group, next_attempt_at)
  WHERE state = 'pending';
CREATE INDEX delivery_jobs_state ON notification.delivery_jobs(claim_group, state);
CREATE INDEX delivery_jobs_company ON notification.delivery_jobs(company_id, state, created_at DESC);
-- Settled jobs are removed when their time is over.
GRANT SELECT, INSERT, UPDATE, DELETE ON notification.delivery_jobs TO platform_notification;

CREATE TABLE notification.delivery_attempts(
  job_id uuid NOT NULL REFERENCES notification.delivery_jobs(id) ON DELETE CASCADE,
  attempt_no int NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('success', 'retry', 'dead')),
  status_code int,
  error_class text,
  started_at timestamptz NOT NULL,
  duration_ms int NOT NULL,
  PRIMARY KEY (job_id, attempt_no));
GRANT SELECT, INSERT ON notification.delivery_attempts TO platform_notification;

-- Keys of idempotent operations: the first answer is stored in the transaction that did the work.
CREATE TABLE notification.idempotency_keys(
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
CREATE INDEX idempotency_keys_expiry ON notification.idempotency_keys(expires_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON notification.idempotency_keys TO platform_notification;
