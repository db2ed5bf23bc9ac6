-- The built-in identity provider: its keys, clients, users, sessions, codes and administration events.
-- Secrets that come from outside are kept as digests (client secrets, codes, refresh tokens) or password hashes; the
-- signing keys are kept as they are, readable by the provider's role alone.

CREATE TABLE idp.signing_keys(
  kid text PRIMARY KEY,
  private_key bytea NOT NULL,
  public_key bytea NOT NULL,
  created_at timestamptz NOT NULL);
COMMENT ON COLUMN idp.signing_keys.private_key IS 'PKCS#8, DER';
COMMENT ON COLUMN idp.signing_keys.public_key IS 'SubjectPublicKeyInfo, DER';

CREATE TABLE idp.secrets(
  name text PRIMARY KEY,
  value bytea NOT NULL CHECK (length(value) >= 32),
  created_at timestamptz NOT NULL);
COMMENT ON TABLE idp.secrets IS 'Keys of message authentication codes: session codes, refresh tokens, client secrets';

CREATE TABLE idp.clients(
  client_id text PRIMARY KEY CHECK (length(client_id) BETWEEN 1 AND 255),
  kind text NOT NULL CHECK (kind IN ('frontend', 'service', 'administration')),
  secret_tag bytea,
  redirect_uris text[] NOT NULL,
  web_origins text[] NOT NULL,
  enabled boolean NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK ((kind = 'frontend') = (secret_tag IS NULL)));

CREATE TABLE idp.users(
  id uuid PRIMARY KEY,
  username text NOT NULL UNIQUE CHECK (username = lower(username) AND length(username) BETWEEN 1 AND 255),
  enabled boolean NOT NULL DEFAULT true,
  email text,
  first_name text,
  last_name text,
  password_hash text,
  service_client text UNIQUE REFERENCES idp.clients(client_id),
  created_at timestamptz NOT NULL,
  CHECK ((password_hash IS NULL) = (service_client IS NOT NULL)));

CREATE TABLE idp.sessions(
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES idp.users(id) ON DELETE CASCADE,
  client_id text NOT NULL REFERENCES idp.clients(client_id),
  authenticated_at timestamptz NOT NULL,
  idle_until timestamptz NOT NULL,
  ends_at timestamptz NOT NULL,
  refresh_hash bytea,
  CHECK (idle_until <= ends_at));
CREATE INDEX sessions_user ON idp.sessions(user_id);
CREATE INDEX sessions_idle ON idp.sessions(idle_until);
COMMENT ON COLUMN idp.sessions.refresh_hash IS 'SHA-256 of the one refresh token that is good now';

CREATE TABLE idp.codes(
  code_hash bytea PRIMARY KEY,
  session_id uuid NOT NULL REFERENCES idp.sessions(id) ON DELETE CASCADE,
  redirect_uri text NOT NULL,
  scope text NOT NULL,
  nonce text,
  code_challenge text NOT NULL,
  expires_at timestamptz NOT NULL,
  used_at timestamptz);
CREATE INDEX codes_session ON idp.codes(session_id);

CREATE TABLE idp.admin_events(
  id uuid PRIMARY KEY,
  occurred_at timestamptz NOT NULL,
  operation text NOT NULL CHECK (operation IN ('CREATE', 'UPDATE', 'DELETE', 'ACTION')),
  resource_type text NOT NULL,
  resource_path text NOT NULL,
  client_id text NOT NULL,
  user_id text NOT NULL);
CREATE INDEX admin_events_recent ON idp.admin_events(occurred_at DESC, id DESC);

GRANT SELECT, INSERT ON idp.signing_keys, idp.secrets TO platform_idp;
GRANT SELECT, INSERT, UPDATE ON idp.clients TO platform_idp;
GRANT SELECT, INSERT, UPDATE, DELETE ON idp.users, idp.sessions, idp.codes TO platform_idp;
GRANT SELECT, INSERT, DELETE ON idp.admin_events TO platform_idp;
