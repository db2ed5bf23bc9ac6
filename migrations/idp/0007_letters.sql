-- Letters by e-mail: for a forgotten password, and for an invitation. A letter waits here until it is sent. What somebody
-- typed is looked up only then, so that an answer does not tell whether there is such an account, and is removed with the
-- letter.

CREATE TABLE idp.letters(
  id uuid PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('reset', 'invitation')),
  name text CHECK (length(name) <= 255),
  user_id uuid REFERENCES idp.users(id) ON DELETE CASCADE,
  lang text NOT NULL CHECK (lang IN ('en', 'de')),
  requested_at timestamptz NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due_at timestamptz NOT NULL,
  CHECK (num_nonnulls(name, user_id) = 1));
CREATE INDEX letters_due ON idp.letters(due_at);
CREATE INDEX letters_user ON idp.letters(user_id);

-- The links in letters. Each is good once and for a limited time, and any change of the password ends it.
CREATE TABLE idp.links(
  link_hash bytea PRIMARY KEY,
  letter_id uuid NOT NULL UNIQUE,
  user_id uuid NOT NULL REFERENCES idp.users(id) ON DELETE CASCADE,
  kind text NOT NULL CHECK (kind IN ('reset', 'invitation')),
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL);
CREATE INDEX links_user ON idp.links(user_id);
CREATE INDEX links_expiry ON idp.links(expires_at);
COMMENT ON COLUMN idp.links.link_hash IS 'SHA-256 of the link''s key';

GRANT SELECT, INSERT, UPDATE, DELETE ON idp.letters, idp.links TO platform_idp;
