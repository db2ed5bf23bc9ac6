-- The subject of each app's backend: the account of its service client at the identity provider. Null until the provider
-- has told it; until then nobody is the app's backend.

ALTER TABLE registry.modules
  ADD COLUMN service_subject text CHECK (length(service_subject) BETWEEN 1 AND 255),
  ADD CHECK (service_subject IS NULL OR service_client_id IS NOT NULL);

-- The contract with authz, beside module_facts.
CREATE VIEW registry.app_backends(key, service_client_id, service_subject) AS
  SELECT m.key, m.service_client_id, m.service_subject
  FROM registry.modules m WHERE m.service_client_id IS NOT NULL;

GRANT SELECT ON registry.app_backends TO platform_authz;
