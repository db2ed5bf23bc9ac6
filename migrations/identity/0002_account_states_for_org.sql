-- org names companies only to subjects whose account may act, and tells so even while identity and authz are away.
GRANT USAGE ON SCHEMA identity TO platform_org;
GRANT SELECT ON identity.subject_facts TO platform_org;
