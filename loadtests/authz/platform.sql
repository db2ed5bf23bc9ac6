-- The tuples for the platform, without a row of the change log for each (no reader follows it yet), and one company, one app,
-- its users.
SET session_replication_role = replica;
ALTER TABLE authz.tuple DISABLE TRIGGER USER;
TRUNCATE authz.tuple;
INSERT INTO authz.tuple SELECT DISTINCT *, 'grant' FROM load_tuple;
INSERT INTO authz.tuple VALUES ('company_module', :'company' || '/lt', 'company', 'company', :'company', '', 'default');
SELECT feed.wire(), feed.begin_anew();
INSERT INTO identity.provider_look(at) VALUES (now()) ON CONFLICT (one) DO UPDATE SET at = excluded.at;
INSERT INTO org.units(id, company_id, type_key, depth, code, name) VALUES (:'company', :'company', 'company', 0, 'LOAD', 'Load') ON CONFLICT DO NOTHING;
INSERT INTO registry.modules(key, kind, display_name, version, installed, enabled, manifest, fragment, content_hash, service_client_id)
  VALUES ('lt', 'app', 'lt', '1.0.0', true, true, '{}', '{"relations":{"lt_doc":{"company_module":{"this":true},"owner":{"this":true},"viewer":{"union":[{"this":true},{"computedUserset":"owner"}]}}}}', sha256('lt'), 'lt') ON CONFLICT DO NOTHING;
UPDATE registry.model_revision SET revision = revision + 1;
ANALYZE authz.tuple;
