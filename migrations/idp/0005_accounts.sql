-- Operators make users while the provider serves. A password that an operator gave is good for one login, at which its
-- user chooses another one.
-- Audit rows hold user names as digests with a salt of the user's own, which is removed with the user: afterwards nobody
-- can tell whose name it was. Rows from before are rewritten.

ALTER TABLE idp.users
  ADD COLUMN must_change_password boolean NOT NULL DEFAULT false,
  ADD COLUMN name_salt bytea NOT NULL CHECK (length(name_salt) = 32)
    DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');
COMMENT ON COLUMN idp.users.name_salt IS 'SHA-256 of this and a user name stands for the name in audit rows';

UPDATE audit.idp__events e
  SET payload = (e.payload - 'username') || COALESCE(
    (SELECT jsonb_build_object('nameDigest', encode(sha256(u.name_salt || convert_to(e.payload->>'username', 'UTF8')), 'hex'))
       FROM idp.users u WHERE 'user:' || u.id = e.subject), '{}')
  WHERE e.payload ? 'username';

-- A second factor: one-time codes of RFC 6238. Each code is good once, so the time step of the last one is kept.
-- A recovery code stands in for one and is removed when it is used.

CREATE TABLE idp.totp(
  user_id uuid PRIMARY KEY REFERENCES idp.users(id) ON DELETE CASCADE,
  secret bytea NOT NULL CHECK (length(secret) = 20),
  last_step bigint NOT NULL,
  created_at timestamptz NOT NULL);
CREATE TABLE idp.recovery_codes(
  user_id uuid NOT NULL REFERENCES idp.totp(user_id) ON DELETE CASCADE,
  code_tag bytea NOT NULL,
  PRIMARY KEY (user_id, code_tag));
COMMENT ON COLUMN idp.recovery_codes.code_tag IS 'Keyed digest of the user and the code';

-- What a user is shown of a session, to know it again.

ALTER TABLE idp.browser_sessions
  ADD COLUMN address text CHECK (length(address) <= 64),
  ADD COLUMN agent text CHECK (length(agent) <= 64);
COMMENT ON COLUMN idp.browser_sessions.agent IS 'Browser and system, read from User-Agent';

GRANT SELECT, INSERT, UPDATE, DELETE ON idp.totp TO platform_idp;
GRANT SELECT, INSERT, DELETE ON idp.recovery_codes TO platform_idp;
