-- Passkeys (Web Authentication): public keys that sign a user in, alone or as the second factor after the password.
-- A challenge is good once. Forms that were only shown store nothing, so the challenges that were used are kept until their
-- forms have run out.
-- Recovery codes stand in for any second factor, so they belong to the user and no longer to the one-time codes.

CREATE TABLE idp.passkeys(
  id uuid PRIMARY KEY,
  user_id uuid NOT NULL REFERENCES idp.users(id) ON DELETE CASCADE,
  credential_id bytea NOT NULL UNIQUE CHECK (length(credential_id) BETWEEN 1 AND 1023),
  credential jsonb NOT NULL,
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 64),
  created_at timestamptz NOT NULL,
  last_used_at timestamptz);
CREATE INDEX passkeys_user ON idp.passkeys(user_id, created_at, id);
COMMENT ON COLUMN idp.passkeys.credential IS 'Public key, signature counter and backup state, as the library writes them';

CREATE TABLE idp.used_challenges(
  challenge_hash bytea PRIMARY KEY CHECK (length(challenge_hash) = 32),
  expires_at timestamptz NOT NULL);
CREATE INDEX used_challenges_expiry ON idp.used_challenges(expires_at);

ALTER TABLE idp.recovery_codes
  DROP CONSTRAINT recovery_codes_user_id_fkey,
  ADD CONSTRAINT recovery_codes_user_id_fkey FOREIGN KEY (user_id) REFERENCES idp.users(id) ON DELETE CASCADE;

GRANT SELECT, INSERT, UPDATE, DELETE ON idp.passkeys TO platform_idp;
GRANT SELECT, INSERT, DELETE ON idp.used_challenges TO platform_idp;
