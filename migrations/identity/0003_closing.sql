-- Closing an account forgets its names here, in org and at the provider. Audit rows hold names as digests with a salt of the
-- subject's own, which is removed with them: afterwards nobody can tell whose name it was. Rows from before are rewritten.

ALTER TABLE identity.users
  ADD COLUMN name_salt bytea CHECK (length(name_salt) = 32)
    DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'),
  -- Of closed accounts: the provider is still to be asked, or has removed it. Null where nobody asked for it: services' own
  -- accounts, and those that were closed before the provider was asked at all.
  ADD COLUMN account_removal text CHECK (account_removal IN ('due', 'done'));
COMMENT ON COLUMN identity.users.name_salt IS 'SHA-256 of this and a name stands for the name in audit rows';
UPDATE identity.users SET name_salt = NULL WHERE lifecycle = 'closed';
ALTER TABLE identity.users
  ADD CHECK ((lifecycle = 'closed') = (name_salt IS NULL)),
  ADD CHECK (lifecycle = 'closed' OR account_removal IS NULL);
CREATE INDEX users_removal_due ON identity.users(kc_sub) WHERE account_removal = 'due';
-- org looks for the subjects whose member rows are to be forgotten.
CREATE INDEX users_closed ON identity.users(kc_sub) WHERE lifecycle = 'closed';

UPDATE audit.identity__events e
  SET payload = (e.payload - '{email,displayName,preferredUsername}'::text[]) || COALESCE(
    (SELECT jsonb_object_agg(c.key || 'Digest', jsonb_build_object(
              'from', encode(sha256(u.name_salt || convert_to(c.value->>'from', 'UTF8')), 'hex'),
              'to', encode(sha256(u.name_salt || convert_to(c.value->>'to', 'UTF8')), 'hex')))
       FROM jsonb_each(e.payload) c JOIN identity.users u ON 'user:' || u.kc_sub = e.subject
      WHERE c.key IN ('email', 'displayName', 'preferredUsername')), '{}')
  WHERE e.payload ?| '{email,displayName,preferredUsername}';

GRANT UPDATE (name_salt, account_removal) ON identity.users TO platform_identity;
