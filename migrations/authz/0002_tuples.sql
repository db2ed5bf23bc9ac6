-- The truth of every relation: `object_type:object_id#relation@subject_type:subject_id[#subject_relation]`.

CREATE TABLE authz.tuple(
  object_type text COLLATE "C" NOT NULL CHECK (length(object_type) BETWEEN 1 AND 64),
  object_id text COLLATE "C" NOT NULL CHECK (length(object_id) BETWEEN 1 AND 200),
  relation text COLLATE "C" NOT NULL CHECK (length(relation) BETWEEN 1 AND 64),
  subject_type text COLLATE "C" NOT NULL CHECK (length(subject_type) BETWEEN 1 AND 64),
  subject_id text COLLATE "C" NOT NULL CHECK (length(subject_id) BETWEEN 1 AND 255),
  -- Empty: the subject itself; else whoever holds this relation on it.
  subject_relation text COLLATE "C" NOT NULL DEFAULT '' CHECK (length(subject_relation) <= 64),
  -- Who wrote it and so keeps it: org's derived tuples, default grants, grants, platform roles, an operator.
  source text NOT NULL CHECK (source IN ('org', 'default', 'grant', 'role', 'operator')),
  PRIMARY KEY (object_type, object_id, relation, subject_type, subject_id, subject_relation));
CREATE INDEX tuple_subject
  ON authz.tuple(subject_type, subject_id, subject_relation, relation, object_type, object_id);
-- A check follows the usersets of a relation; without this index it would read past every direct holder as well.
CREATE INDEX tuple_userset ON authz.tuple(object_type, object_id, relation) WHERE subject_relation <> '';

CREATE TRIGGER tuple_added AFTER INSERT ON authz.tuple
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed.log('tuple');
CREATE TRIGGER tuple_removed AFTER DELETE ON authz.tuple
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION feed.log('tuple');

-- Tuples are added and removed, never changed: nobody is granted UPDATE, and TRUNCATE is the owner's alone.
GRANT USAGE ON SCHEMA authz TO platform_org, platform_registry;
GRANT SELECT, INSERT, DELETE ON authz.tuple TO platform_authz, platform_org;
GRANT SELECT, INSERT ON authz.tuple TO platform_registry;

ALTER TABLE authz.tuple ENABLE ROW LEVEL SECURITY;

CREATE POLICY authz_reads ON authz.tuple FOR SELECT TO platform_authz USING (true);
CREATE POLICY authz_adds ON authz.tuple FOR INSERT TO platform_authz WITH CHECK (true);
CREATE POLICY authz_removes ON authz.tuple FOR DELETE TO platform_authz USING (true);

-- What org derives from its rows: a member's place in its company, its positions and its groups.
CREATE POLICY org_derives ON authz.tuple FOR INSERT TO platform_org WITH CHECK (
  source = 'org' AND subject_type = 'user' AND subject_relation = ''
  AND (object_type, relation) IN (('company', 'member'), ('position', 'holder'), ('group', 'member')));
CREATE POLICY org_reads_derived ON authz.tuple FOR SELECT TO platform_org USING (
  source = 'org' AND subject_type = 'user' AND subject_relation = ''
  AND (object_type, relation) IN (('company', 'member'), ('position', 'holder'), ('group', 'member')));
CREATE POLICY org_removes_derived ON authz.tuple FOR DELETE TO platform_org USING (
  source = 'org' AND subject_type = 'user' AND subject_relation = ''
  AND (object_type, relation) IN (('company', 'member'), ('position', 'holder'), ('group', 'member')));

-- The default grants: the anchor of a module in a company, and the operators' way in. Whoever enables a module or makes a
-- company adds them; only authz, for an operator, removes one.
CREATE POLICY defaults_are_added ON authz.tuple FOR INSERT TO platform_org, platform_registry WITH CHECK (
  source = 'default' AND object_type = 'company_module' AND subject_relation = ''
  AND ((relation = 'company' AND subject_type = 'company' AND split_part(object_id, '/', 1) = subject_id)
    OR (relation = 'system' AND subject_type = 'system' AND subject_id = 'platform')));
CREATE POLICY defaults_are_read ON authz.tuple FOR SELECT TO platform_org, platform_registry USING (
  source = 'default' AND object_type = 'company_module' AND subject_relation = ''
  AND ((relation = 'company' AND subject_type = 'company' AND split_part(object_id, '/', 1) = subject_id)
    OR (relation = 'system' AND subject_type = 'system' AND subject_id = 'platform')));
