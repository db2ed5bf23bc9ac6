-- Bindings are rows that stand for tuples: what the driver of the two stores counts, and what its sweep reads.
ALTER TABLE helpdesk.bindings ADD COLUMN attempts int NOT NULL DEFAULT 0;
ALTER TABLE helpdesk.bindings ADD COLUMN attempted_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX bindings_unsettled ON helpdesk.bindings(id) WHERE state <> 'active';
CREATE INDEX bindings_listed ON helpdesk.bindings(company_id, created_at, id);

-- Numbers of tickets, without gaps in a company: the row is locked until the ticket's transaction ends.
CREATE TABLE helpdesk.ticket_counters(
  company_id uuid PRIMARY KEY,
  last_number bigint NOT NULL CHECK (last_number >= 1));
GRANT SELECT, INSERT, UPDATE ON helpdesk.ticket_counters TO platform_helpdesk;

ALTER TABLE helpdesk.tickets ADD COLUMN number bigint CHECK (number >= 1);
ALTER TABLE helpdesk.tickets ADD COLUMN priority text NOT NULL DEFAULT 'normal'
  CHECK (priority IN ('low', 'normal', 'high', 'urgent'));
-- Since when it is resolved: what closing by itself and the reporter's time to reopen count from.
ALTER TABLE helpdesk.tickets ADD COLUMN resolved_at timestamptz;
UPDATE helpdesk.tickets SET number = n.number
  FROM (SELECT id, row_number() OVER (PARTITION BY company_id ORDER BY created_at, id) AS number
          FROM helpdesk.tickets) AS n
  WHERE tickets.id = n.id;
INSERT INTO helpdesk.ticket_counters(company_id, last_number)
  SELECT company_id, max(number) FROM helpdesk.tickets GROUP BY company_id;
UPDATE helpdesk.tickets SET resolved_at = updated_at WHERE status = 'resolved';
ALTER TABLE helpdesk.tickets ALTER COLUMN number SET NOT NULL;
ALTER TABLE helpdesk.tickets ADD CONSTRAINT tickets_number UNIQUE (company_id, number);
ALTER TABLE helpdesk.tickets ADD CONSTRAINT tickets_resolved CHECK ((status = 'resolved') = (resolved_at IS NOT NULL));

-- Each way in which a ticket can be the caller's is read in the order of a list.
DROP INDEX helpdesk.tickets_status;
DROP INDEX helpdesk.tickets_reporter;
DROP INDEX helpdesk.tickets_am;
DROP INDEX helpdesk.tickets_ap;
DROP INDEX helpdesk.tickets_ag;
CREATE INDEX tickets_of_status ON helpdesk.tickets(company_id, status, updated_at DESC, id);
CREATE INDEX tickets_of_priority ON helpdesk.tickets(company_id, priority, updated_at DESC, id);
CREATE INDEX tickets_of_reporter ON helpdesk.tickets(company_id, reporter_member_id, updated_at DESC, id);
CREATE INDEX tickets_of_member ON helpdesk.tickets(company_id, assignee_member_id, updated_at DESC, id)
  WHERE assignee_member_id IS NOT NULL;
CREATE INDEX tickets_of_position ON helpdesk.tickets(company_id, assignee_position_id, updated_at DESC, id)
  WHERE assignee_position_id IS NOT NULL;
CREATE INDEX tickets_of_group ON helpdesk.tickets(company_id, assignee_group_id, updated_at DESC, id)
  WHERE assignee_group_id IS NOT NULL;
CREATE INDEX tickets_of_nobody ON helpdesk.tickets(company_id, updated_at DESC, id) WHERE assignee_kind IS NULL;
CREATE INDEX tickets_to_close ON helpdesk.tickets(company_id, resolved_at, id) WHERE status = 'resolved';

-- The words of a ticket, apart from its row: words never change, and a change of the row would write the index again.
CREATE TABLE helpdesk.ticket_words(
  ticket_id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  words tsvector NOT NULL,
  FOREIGN KEY (company_id, ticket_id) REFERENCES helpdesk.tickets(company_id, id));
INSERT INTO helpdesk.ticket_words(ticket_id, company_id, words)
  SELECT id, company_id, to_tsvector('simple', title || ' ' || description) FROM helpdesk.tickets;
CREATE INDEX ticket_words_search ON helpdesk.ticket_words USING gin(words);
GRANT SELECT, INSERT ON helpdesk.ticket_words TO platform_helpdesk;

-- Internal comments are for those who work on tickets.
ALTER TABLE helpdesk.comments ADD COLUMN visibility text NOT NULL DEFAULT 'public'
  CHECK (visibility IN ('public', 'internal'));

-- Rules of a company; one that never changed them has no row.
CREATE TABLE helpdesk.settings(
  company_id uuid PRIMARY KEY,
  auto_close_resolved_days int CHECK (auto_close_resolved_days BETWEEN 1 AND 3650),
  reopen_on_reporter_comment boolean NOT NULL,
  reporter_reopen_days int CHECK (reporter_reopen_days BETWEEN 0 AND 3650),
  updated_at timestamptz NOT NULL DEFAULT now());
GRANT SELECT, INSERT, UPDATE ON helpdesk.settings TO platform_helpdesk;

-- What notification is told, written with the change that it tells of. A queue of jobs.
CREATE TABLE helpdesk.notices(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  ticket_id uuid NOT NULL,
  -- In whose name notification is told.
  subject text NOT NULL CHECK (length(subject) BETWEEN 1 AND 255),
  event_type text NOT NULL,
  subject_line text NOT NULL CHECK (length(subject_line) BETWEEN 1 AND 200),
  body text NOT NULL CHECK (length(body) BETWEEN 1 AND 10000),
  correlation_id text,
  created_at timestamptz NOT NULL DEFAULT now(),
  claim_group text NOT NULL DEFAULT 'default',
  state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'dead')),
  attempt_count int NOT NULL DEFAULT 0 CHECK (attempt_count BETWEEN 0 AND 100),
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  settled_at timestamptz,
  lease_token uuid,
  leased_until timestamptz,
  error_class text,
  FOREIGN KEY (company_id, ticket_id) REFERENCES helpdesk.tickets(company_id, id),
  CHECK ((state = 'pending') = (settled_at IS NULL)),
  CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
  CHECK (state = 'pending' OR lease_token IS NULL));
CREATE INDEX notices_due ON helpdesk.notices(claim_group, company_id, next_attempt_at) WHERE state = 'pending';
CREATE INDEX notices_settled ON helpdesk.notices(state, settled_at) WHERE state <> 'pending';
GRANT SELECT, INSERT, UPDATE, DELETE ON helpdesk.notices TO platform_helpdesk;
