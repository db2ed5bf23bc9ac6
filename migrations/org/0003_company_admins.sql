-- The company role `admin`, which an operator gives and takes: the one relation beside its derived tuples that org writes.
-- The derived tuples keep their own source, so the pass that compares them never touches these.

CREATE POLICY org_adds_admins ON authz.tuple FOR INSERT TO platform_org WITH CHECK (
  source = 'operator' AND object_type = 'company' AND relation = 'admin'
  AND subject_type = 'user' AND subject_relation = '');
CREATE POLICY org_reads_admins ON authz.tuple FOR SELECT TO platform_org USING (
  source = 'operator' AND object_type = 'company' AND relation = 'admin'
  AND subject_type = 'user' AND subject_relation = '');
CREATE POLICY org_removes_admins ON authz.tuple FOR DELETE TO platform_org USING (
  source = 'operator' AND object_type = 'company' AND relation = 'admin'
  AND subject_type = 'user' AND subject_relation = '');
