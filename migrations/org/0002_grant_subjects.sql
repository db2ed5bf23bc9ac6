-- For authz, which grants to positions and groups of one company only: which company each belongs to.
CREATE VIEW org.position_facts(position_id, company_id) AS SELECT id, company_id FROM org.positions;
CREATE VIEW org.group_facts(group_id, company_id) AS SELECT id, company_id FROM org.groups;
GRANT SELECT ON org.position_facts, org.group_facts TO platform_authz;
