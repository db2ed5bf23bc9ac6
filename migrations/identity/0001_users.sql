-- identity: one row per subject of the identity provider, the time of the last complete look at the provider, and the
-- facts that authz reads of both.

CREATE TABLE identity.users(
  kc_sub text PRIMARY KEY CHECK (length(kc_sub) BETWEEN 1 AND 255),
  kind text NOT NULL CHECK (kind IN ('user', 'service')),
  email text,
  display_name text,
  preferred_username text,
  idp_enabled boolean NOT NULL DEFAULT true,
  -- Set while the provider has no such account any more: such a row is not asked about every few seconds for ever.
  idp_gone_at timestamptz,
  idp_checked_at timestamptz,
  lifecycle text NOT NULL DEFAULT 'active' CHECK (lifecycle IN ('active', 'suspended', 'closed')),
  lifecycle_reason text,
  first_seen_at timestamptz NOT NULL DEFAULT now(),
  last_seen_at timestamptz NOT NULL DEFAULT now(),
  CHECK (idp_gone_at IS NULL OR NOT idp_enabled),
  CHECK (lifecycle <> 'closed' OR (email IS NULL AND display_name IS NULL AND preferred_username IS NULL)));
CREATE INDEX users_email ON identity.users(lower(email));
-- What every look compares with the provider: the accounts that were disabled, and the service accounts, which the
-- provider's list leaves out.
CREATE INDEX users_disabled ON identity.users(kc_sub) WHERE NOT idp_enabled AND idp_gone_at IS NULL;
CREATE INDEX users_service ON identity.users(kc_sub) WHERE kind = 'service';

CREATE TABLE identity.provider_look(
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  at timestamptz NOT NULL);

-- The contract with authz: the views, never the tables behind them.
CREATE VIEW identity.subject_facts(kc_sub, kind, idp_enabled, lifecycle) AS
  SELECT kc_sub, kind, idp_enabled, lifecycle FROM identity.users;

GRANT SELECT, INSERT ON identity.users TO platform_identity;
GRANT UPDATE (email, display_name, preferred_username, idp_enabled, idp_gone_at, idp_checked_at, lifecycle,
  lifecycle_reason, last_seen_at) ON identity.users TO platform_identity;
GRANT SELECT, INSERT, UPDATE (at) ON identity.provider_look TO platform_identity;

GRANT USAGE ON SCHEMA identity TO platform_authz;
GRANT SELECT ON identity.subject_facts, identity.provider_look TO platform_authz;
