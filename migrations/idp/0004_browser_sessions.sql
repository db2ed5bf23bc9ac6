-- A refresh whose answer was lost is repeated by its client: for some seconds the token that was replaced last gives the
-- same new tokens again.
-- A browser stays signed in after a login: it keeps a cookie, and its next authorization requests need no form.

ALTER TABLE idp.sessions
  ADD COLUMN replaced_hash bytea,
  ADD COLUMN replaced_at timestamptz,
  ADD CHECK ((replaced_hash IS NULL) = (replaced_at IS NULL));
COMMENT ON COLUMN idp.sessions.replaced_hash IS 'SHA-256 of the refresh token that refresh_hash replaced';

CREATE TABLE idp.browser_sessions(
  id uuid PRIMARY KEY,
  cookie_hash bytea NOT NULL UNIQUE,
  user_id uuid NOT NULL REFERENCES idp.users(id) ON DELETE CASCADE,
  authenticated_at timestamptz NOT NULL,
  idle_until timestamptz NOT NULL,
  ends_at timestamptz NOT NULL,
  CHECK (idle_until <= ends_at));
CREATE INDEX browser_sessions_user ON idp.browser_sessions(user_id);
CREATE INDEX browser_sessions_idle ON idp.browser_sessions(idle_until);
COMMENT ON COLUMN idp.browser_sessions.cookie_hash IS 'SHA-256 of the cookie''s value';

ALTER TABLE idp.sessions
  ADD COLUMN browser_session_id uuid REFERENCES idp.browser_sessions(id) ON DELETE CASCADE;
CREATE INDEX sessions_browser_session ON idp.sessions(browser_session_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON idp.browser_sessions TO platform_idp;
