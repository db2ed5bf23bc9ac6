-- timesheet: settings and projects of a company, hours of a member's week, submissions of weeks and what they held.

CREATE TABLE timesheet.settings(
  company_id uuid PRIMARY KEY,
  enforce_billable_within_actual boolean NOT NULL DEFAULT true,
  allow_billable_above_eight_hours boolean NOT NULL DEFAULT false,
  allowed_previous_weeks int NOT NULL DEFAULT 4 CHECK (allowed_previous_weeks BETWEEN 0 AND 520),
  allowed_future_weeks int NOT NULL DEFAULT 1 CHECK (allowed_future_weeks BETWEEN 0 AND 520),
  updated_at timestamptz NOT NULL DEFAULT now());
GRANT SELECT, INSERT, UPDATE ON timesheet.settings TO platform_timesheet;

CREATE TABLE timesheet.projects(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  code text NOT NULL CHECK (code ~ '^[A-Z0-9_-]{1,20}$'),
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'inactive')),
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, id),
  CONSTRAINT projects_code UNIQUE (company_id, code));
GRANT SELECT, INSERT, UPDATE ON timesheet.projects TO platform_timesheet;

CREATE TABLE timesheet.member_approvers(
  company_id uuid NOT NULL,
  member_id uuid NOT NULL,
  approver_member_id uuid NOT NULL,
  assigned_at timestamptz NOT NULL DEFAULT now(),
  assigned_by text NOT NULL,
  PRIMARY KEY (company_id, member_id),
  CHECK (member_id <> approver_member_id));
GRANT SELECT, INSERT, UPDATE ON timesheet.member_approvers TO platform_timesheet;

-- The lock row of a member's week; holds no state.
CREATE TABLE timesheet.member_weeks(
  company_id uuid NOT NULL,
  member_id uuid NOT NULL,
  week_start date NOT NULL CHECK (extract(isodow FROM week_start) = 1),
  PRIMARY KEY (company_id, member_id, week_start));
-- Locking a row (FOR UPDATE) needs the right to change it.
GRANT SELECT, INSERT, UPDATE ON timesheet.member_weeks TO platform_timesheet;

CREATE TABLE timesheet.entries(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  member_id uuid NOT NULL,
  week_start date NOT NULL,
  project_id uuid NOT NULL,
  entry_date date NOT NULL,
  real_hours numeric(4,2) NOT NULL CHECK (real_hours BETWEEN 0 AND 24),
  billable_hours numeric(4,2) NOT NULL CHECK (billable_hours BETWEEN 0 AND 24),
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, member_id, entry_date, project_id),
  CHECK (entry_date - week_start BETWEEN 0 AND 6),
  FOREIGN KEY (company_id, project_id) REFERENCES timesheet.projects(company_id, id),
  FOREIGN KEY (company_id, member_id, week_start) REFERENCES timesheet.member_weeks);
CREATE INDEX entries_week ON timesheet.entries(company_id, member_id, week_start);
GRANT SELECT, INSERT, UPDATE ON timesheet.entries TO platform_timesheet;

CREATE TABLE timesheet.submissions(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  member_id uuid NOT NULL,
  week_start date NOT NULL,
  version_number int NOT NULL CHECK (version_number >= 1),
  root_id uuid NOT NULL REFERENCES timesheet.submissions(id),
  supersedes_id uuid UNIQUE REFERENCES timesheet.submissions(id),
  is_current boolean NOT NULL,
  status text NOT NULL CHECK (status IN ('submitted', 'approved', 'rejected', 'reverted')),
  assigned_approver_member_id uuid,
  reject_reason text,
  submitted_by text NOT NULL,
  submitted_at timestamptz NOT NULL DEFAULT now(),
  decided_by text,
  decided_at timestamptz,
  UNIQUE (company_id, member_id, week_start, version_number),
  CHECK ((version_number = 1) = (supersedes_id IS NULL)),
  CHECK ((version_number = 1) = (root_id = id)),
  CHECK ((status = 'rejected') = (reject_reason IS NOT NULL)),
  CHECK ((status = 'submitted') = (decided_at IS NULL)),
  CHECK (is_current OR status IN ('rejected', 'reverted')),
  CHECK (assigned_approver_member_id <> member_id),
  FOREIGN KEY (company_id, member_id, week_start) REFERENCES timesheet.member_weeks);
CREATE UNIQUE INDEX submissions_one_current ON timesheet.submissions(company_id, member_id, week_start)
  WHERE is_current;
CREATE INDEX submissions_company
  ON timesheet.submissions(company_id, week_start DESC, member_id, version_number DESC);
CREATE INDEX submissions_approver ON timesheet.submissions(company_id, assigned_approver_member_id, status);
GRANT SELECT, INSERT, UPDATE ON timesheet.submissions TO platform_timesheet;

-- What a submission held when it was made: rows are added, never changed, so what was approved can always be shown.
CREATE TABLE timesheet.submission_entries(
  submission_id uuid NOT NULL REFERENCES timesheet.submissions(id),
  project_id uuid NOT NULL,
  entry_date date NOT NULL,
  real_hours numeric(4,2) NOT NULL,
  billable_hours numeric(4,2) NOT NULL,
  PRIMARY KEY (submission_id, entry_date, project_id));
GRANT SELECT, INSERT ON timesheet.submission_entries TO platform_timesheet;

-- Keys of idempotent operations: the first answer is stored in the transaction that did the work.
CREATE TABLE timesheet.idempotency_keys(
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
CREATE INDEX idempotency_keys_expiry ON timesheet.idempotency_keys(expires_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON timesheet.idempotency_keys TO platform_timesheet;
