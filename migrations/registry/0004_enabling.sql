-- What is being enabled where there are many companies: its default grants are written portion by portion, up to the company
-- `after_company`, and it is enabled when all have theirs.

CREATE TABLE registry.enabling(
  key text PRIMARY KEY REFERENCES registry.modules,
  requested_by text NOT NULL,
  correlation_id text,
  requested_at timestamptz NOT NULL DEFAULT now(),
  after_company uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
  companies_done bigint NOT NULL DEFAULT 0 CHECK (companies_done >= 0),
  companies_total bigint NOT NULL CHECK (companies_total >= 0));

-- The catalog tells what is being enabled; how far it is, it does not.
CREATE TRIGGER enabling_changed AFTER INSERT OR DELETE OR TRUNCATE ON registry.enabling
  FOR EACH STATEMENT EXECUTE FUNCTION registry.make_edition();
ALTER TABLE registry.enabling ENABLE ALWAYS TRIGGER enabling_changed;

-- The contract with org: what a company gets default grants of when it is made or activated. What is being enabled counts, so
-- that the portions need not look for companies that came after them.
CREATE VIEW registry.granted_modules(key) AS
  SELECT key FROM registry.modules WHERE installed AND enabled
  UNION
  SELECT key FROM registry.enabling;

GRANT SELECT, INSERT, UPDATE, DELETE ON registry.enabling TO platform_registry;
GRANT SELECT ON registry.granted_modules TO platform_registry, platform_org;
