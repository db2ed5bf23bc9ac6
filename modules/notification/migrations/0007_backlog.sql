-- notification: changes to very many pending deliveries, which the worker makes in portions.

CREATE TABLE notification.backlog_changes(
  company_id uuid NOT NULL,
  change text NOT NULL CHECK (change IN ('give_up', 'release', 'make_due')),
  -- The channel whose deliveries are changed, or the company if all of its deliveries are.
  scope uuid NOT NULL,
  -- The pending delivery that was looked at last, in the order of creation.
  after_created_at timestamptz NOT NULL,
  after_id uuid NOT NULL,
  waits_since timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (company_id, change, scope));
GRANT SELECT, INSERT, UPDATE, DELETE ON notification.backlog_changes TO platform_notification;
