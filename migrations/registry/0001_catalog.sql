-- registry: the catalog of modules and apps, what each of them claims, their versions, which default grants were written
-- once, and the revision that edges and authz follow.

CREATE TABLE registry.modules(
  key text PRIMARY KEY CHECK (key ~ '^[a-z][a-z0-9_]{1,31}$'),
  kind text NOT NULL CHECK (kind IN ('module', 'app')),
  display_name text NOT NULL,
  version text NOT NULL,
  scope_type text NOT NULL DEFAULT 'company' CHECK (scope_type IN ('global', 'company')),
  mandatory boolean NOT NULL DEFAULT false,
  base_path text NOT NULL DEFAULT '',
  health_path text NOT NULL DEFAULT '',
  port int CHECK (port BETWEEN 1 AND 65535),
  license_class text NOT NULL DEFAULT '',
  installed boolean NOT NULL DEFAULT false,
  enabled boolean NOT NULL DEFAULT false,
  manifest jsonb NOT NULL,
  -- Always an object with the sections of a module's fragment; an app's holds its relations and feature keys.
  fragment jsonb NOT NULL,
  content_hash bytea NOT NULL CHECK (length(content_hash) = 32),
  service_client_id text,
  updated_at timestamptz NOT NULL DEFAULT now(),
  CHECK (installed OR NOT enabled),
  CHECK (NOT (mandatory AND installed) OR enabled),
  CHECK ((kind = 'app') = (service_client_id IS NOT NULL)),
  CHECK ((kind = 'module') = (port IS NOT NULL)));
CREATE UNIQUE INDEX modules_port ON registry.modules(port) WHERE kind = 'module';
CREATE UNIQUE INDEX modules_client ON registry.modules(service_client_id) WHERE service_client_id IS NOT NULL;

CREATE TABLE registry.module_versions(
  key text NOT NULL REFERENCES registry.modules,
  version text NOT NULL,
  manifest jsonb NOT NULL,
  content_hash bytea NOT NULL,
  actor text NOT NULL,
  registered_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (key, version));

CREATE TABLE registry.object_types(
  object_type text PRIMARY KEY,
  key text NOT NULL REFERENCES registry.modules);
CREATE INDEX object_types_key ON registry.object_types(key);

CREATE TABLE registry.feature_keys(
  feature_key text PRIMARY KEY,
  key text NOT NULL REFERENCES registry.modules);
CREATE INDEX feature_keys_key ON registry.feature_keys(key);

-- One row once the `system` tuple of a company and module was written: a deleted one never comes back.
CREATE TABLE registry.default_grant_ledger(
  company_id uuid NOT NULL,
  key text NOT NULL REFERENCES registry.modules,
  written_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (company_id, key));

CREATE TABLE registry.model_revision(
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  revision bigint NOT NULL);
INSERT INTO registry.model_revision(revision) VALUES (0);

-- The contract with authz: this view and the revision, never the tables behind it. `features` is the list of feature keys.
CREATE VIEW registry.module_facts(key, kind, installed, enabled, service_client_id, version, features, fragment) AS
  SELECT m.key, m.kind, m.installed, m.enabled, m.service_client_id, m.version,
    (SELECT coalesce(jsonb_agg(f.feature_key ORDER BY f.feature_key COLLATE "C"), '[]')
       FROM registry.feature_keys f WHERE f.key = m.key),
    m.fragment
  FROM registry.modules m;

GRANT SELECT, INSERT, UPDATE ON registry.modules TO platform_registry;
GRANT SELECT, INSERT ON registry.module_versions TO platform_registry;
GRANT SELECT, INSERT, DELETE ON registry.object_types, registry.feature_keys TO platform_registry;
GRANT SELECT, INSERT ON registry.default_grant_ledger TO platform_registry;
GRANT SELECT, UPDATE (revision) ON registry.model_revision TO platform_registry;

GRANT USAGE ON SCHEMA registry TO platform_authz, platform_org;
GRANT SELECT ON registry.module_facts, registry.model_revision TO platform_authz;
-- A new company gets the default grants of every enabled module in the transaction that creates it.
GRANT SELECT (key, kind, installed, enabled) ON registry.modules TO platform_org;
GRANT SELECT (company_id, key), INSERT (company_id, key) ON registry.default_grant_ledger TO platform_org;
