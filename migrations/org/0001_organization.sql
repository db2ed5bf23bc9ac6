-- org: the taxonomy, companies and units, members, positions, assignments, groups, and the facts that authz and registry
-- read of them.

CREATE TABLE org.unit_types(
  type_key text PRIMARY KEY,
  label text NOT NULL,
  allowed_parents text[] NOT NULL);
INSERT INTO org.unit_types(type_key, label, allowed_parents) VALUES
  ('company', 'Company', '{}'),
  ('business_unit', 'Business unit', '{company,business_unit}'),
  ('department', 'Department', '{company,business_unit,department}'),
  ('territory', 'Territory', '{company,business_unit,territory}'),
  ('team', 'Team', '{business_unit,department,territory,team}');

CREATE TABLE org.units(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  type_key text NOT NULL REFERENCES org.unit_types,
  parent_id uuid,
  depth smallint NOT NULL CONSTRAINT units_depth CHECK (depth BETWEEN 0 AND 32),
  code text NOT NULL CHECK (code ~ '^[A-Z0-9][A-Z0-9_-]{0,31}$'),
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  is_active boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, id),
  CHECK ((type_key = 'company') = (parent_id IS NULL)),
  CHECK ((type_key = 'company') = (company_id = id)),
  FOREIGN KEY (company_id, parent_id) REFERENCES org.units(company_id, id));
CREATE UNIQUE INDEX units_company_code ON org.units(code) WHERE type_key = 'company';
CREATE UNIQUE INDEX units_code ON org.units(company_id, code) WHERE type_key <> 'company';
CREATE INDEX units_parent ON org.units(parent_id);

CREATE TABLE org.members(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL REFERENCES org.units(id),
  code text NOT NULL CHECK (length(code) BETWEEN 1 AND 64),
  display_name text NOT NULL CHECK (length(display_name) BETWEEN 1 AND 200),
  email text CHECK (length(email) <= 254),
  user_id text CHECK (length(user_id) BETWEEN 1 AND 255),
  is_active boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, id));
CREATE UNIQUE INDEX members_code ON org.members(company_id, upper(code));
CREATE UNIQUE INDEX members_email ON org.members(company_id, lower(email))
  WHERE email IS NOT NULL AND user_id IS NOT NULL;
CREATE UNIQUE INDEX members_user ON org.members(company_id, user_id) WHERE user_id IS NOT NULL;
CREATE INDEX members_by_user ON org.members(user_id) WHERE user_id IS NOT NULL;
-- Lists are ordered by code point, so that their order is the same on every machine.
CREATE INDEX members_list ON org.members(company_id, display_name COLLATE "C", id);

CREATE TABLE org.positions(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  code text NOT NULL CHECK (length(code) BETWEEN 1 AND 64),
  title text NOT NULL CHECK (length(title) BETWEEN 1 AND 200),
  org_unit_id uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, id),
  CONSTRAINT positions_unit FOREIGN KEY (company_id, org_unit_id) REFERENCES org.units(company_id, id));
CREATE UNIQUE INDEX positions_code ON org.positions(company_id, upper(code));

CREATE TABLE org.assignments(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL,
  position_id uuid NOT NULL,
  member_id uuid NOT NULL,
  valid_from date NOT NULL,
  valid_to date,
  created_at timestamptz NOT NULL DEFAULT now(),
  CHECK (valid_to IS NULL OR valid_to >= valid_from),
  FOREIGN KEY (company_id, position_id) REFERENCES org.positions(company_id, id),
  FOREIGN KEY (company_id, member_id) REFERENCES org.members(company_id, id));
CREATE UNIQUE INDEX assignments_one_open ON org.assignments(position_id) WHERE valid_to IS NULL;
CREATE INDEX assignments_member ON org.assignments(member_id) WHERE valid_to IS NULL;

CREATE TABLE org.groups(
  id uuid PRIMARY KEY,
  company_id uuid NOT NULL REFERENCES org.units(id),
  code text NOT NULL CHECK (length(code) BETWEEN 1 AND 64),
  name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
  source text NOT NULL DEFAULT 'platform',
  external_ref text,
  is_active boolean NOT NULL DEFAULT true,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (company_id, id));
CREATE UNIQUE INDEX groups_code ON org.groups(company_id, upper(code));

CREATE TABLE org.group_members(
  company_id uuid NOT NULL,
  group_id uuid NOT NULL,
  member_id uuid NOT NULL,
  added_by text NOT NULL,
  added_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (group_id, member_id),
  FOREIGN KEY (company_id, group_id) REFERENCES org.groups(company_id, id),
  FOREIGN KEY (company_id, member_id) REFERENCES org.members(company_id, id));
CREATE INDEX group_members_member ON org.group_members(member_id);

-- The definition of the derived tuples: a member that is active and linked belongs to its company, holds the positions it
-- is assigned to now, and belongs to its active groups. Every write keeps authz.tuple equal to this, in its transaction.
CREATE VIEW org.derived_tuples(company_id, object_type, object_id, relation, subject_id) AS
  SELECT m.company_id, 'company'::text, m.company_id::text, 'member'::text, m.user_id
    FROM org.members m
    WHERE m.is_active AND m.user_id IS NOT NULL
  UNION ALL
  SELECT m.company_id, 'position', a.position_id::text, 'holder', m.user_id
    FROM org.members m
    JOIN org.assignments a ON a.member_id = m.id AND a.valid_to IS NULL
    WHERE m.is_active AND m.user_id IS NOT NULL
  UNION ALL
  SELECT m.company_id, 'group', g.id::text, 'member', m.user_id
    FROM org.members m
    JOIN org.group_members gm ON gm.member_id = m.id
    JOIN org.groups g ON g.id = gm.group_id AND g.is_active
    WHERE m.is_active AND m.user_id IS NOT NULL;

-- The contract with authz and registry: these views, never the tables behind them.
CREATE VIEW org.company_facts(company_id, is_active) AS
  SELECT id, is_active FROM org.units WHERE type_key = 'company';
CREATE VIEW org.member_facts(company_id, kc_sub, member_id, is_active) AS
  SELECT company_id, user_id, id, is_active FROM org.members WHERE user_id IS NOT NULL;

GRANT SELECT ON org.unit_types, org.derived_tuples TO platform_org;
GRANT SELECT, INSERT ON org.units, org.members, org.positions, org.assignments, org.groups TO platform_org;
GRANT SELECT, INSERT, DELETE ON org.group_members TO platform_org;
-- A row can be locked only by a role that may change a column of it: companies, positions and groups are locked by the
-- writes below them.
GRANT UPDATE (is_active, updated_at) ON org.units TO platform_org;
GRANT UPDATE (display_name, email, user_id, is_active, updated_at) ON org.members TO platform_org;
GRANT UPDATE (title) ON org.positions TO platform_org;
GRANT UPDATE (valid_to) ON org.assignments TO platform_org;
GRANT UPDATE (name, is_active) ON org.groups TO platform_org;

GRANT USAGE ON SCHEMA org TO platform_authz, platform_registry;
GRANT SELECT ON org.company_facts TO platform_authz, platform_registry;
GRANT SELECT ON org.member_facts TO platform_authz;
