-- Failed logins are counted by account, address and minute. A minute that is over becomes one audit row for each.

CREATE TABLE idp.failed_logins(
  minute timestamptz NOT NULL,
  subject text NOT NULL CHECK (length(subject) <= 64),
  address text NOT NULL CHECK (length(address) <= 64),
  client_id text NOT NULL CHECK (length(client_id) <= 255),
  reasons jsonb NOT NULL,
  attempts integer NOT NULL CHECK (attempts > 0),
  PRIMARY KEY (minute, subject, address));
COMMENT ON COLUMN idp.failed_logins.subject IS 'user:<id>, or user:unknown';
COMMENT ON COLUMN idp.failed_logins.reasons IS 'Attempts by reason';

GRANT SELECT, INSERT, UPDATE, DELETE ON idp.failed_logins TO platform_idp;
