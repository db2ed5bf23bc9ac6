-- The member rows of a closed account keep their ids and forget whose they were. Audit rows hold names as digests with a salt
-- of the member's own, which is removed with the names: afterwards nobody can tell whose name it was. Rows from before are
-- rewritten.

ALTER TABLE org.members
  ADD COLUMN name_salt bytea CHECK (length(name_salt) = 32)
    DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'),
  ADD CHECK (name_salt IS NOT NULL OR (email IS NULL AND NOT is_active));
COMMENT ON COLUMN org.members.name_salt IS 'SHA-256 of this and a name stands for the name in audit rows; null: a former member';
-- Finds the rows that are still to be forgotten of the subjects that are closed.
CREATE INDEX members_named ON org.members(user_id) WHERE user_id IS NOT NULL AND name_salt IS NOT NULL;

UPDATE audit.org__events e
  SET payload = (e.payload - '{code,displayName,email}'::text[]) || COALESCE(
    (SELECT jsonb_object_agg(c.key || 'Digest', jsonb_build_object(
              'from', encode(sha256(m.name_salt || convert_to(c.value->>'from', 'UTF8')), 'hex'),
              'to', encode(sha256(m.name_salt || convert_to(c.value->>'to', 'UTF8')), 'hex')))
       FROM jsonb_each(e.payload) c JOIN org.members m ON 'member:' || m.id = e.subject
      WHERE c.key IN ('code', 'displayName', 'email')), '{}')
  WHERE e.subject LIKE 'member:%' AND e.payload ?| '{code,displayName,email}';

GRANT UPDATE (code, name_salt) ON org.members TO platform_org;

-- What modules read to forget the names that they hold themselves: former members in the order in which they were forgotten.
CREATE TABLE org.former_members(
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  company_id uuid NOT NULL,
  member_id uuid NOT NULL UNIQUE,
  kc_sub text NOT NULL,
  forgotten_at timestamptz NOT NULL DEFAULT now());
GRANT SELECT, INSERT ON org.former_members TO platform_org;
