-- A member's binding stands for a tuple of the login that the member row had when it was bound. Where org has moved a login to
-- another row that was bound too, two bindings stood for one tuple, and the end of one took the other's. One login has at
-- most one binding to a tier: of two the active one stays, the newer of two such, and as their tuple may stand the sweep
-- is to ask authz about what stays.
CREATE TABLE helpdesk.bindings_of_one_login(id uuid PRIMARY KEY, kept uuid NOT NULL);
INSERT INTO helpdesk.bindings_of_one_login(id, kept)
  SELECT id, kept FROM (
    SELECT id, first_value(id) OVER (PARTITION BY company_id, kc_sub, tier
             ORDER BY (state = 'active') DESC, (state = 'revoking') DESC, created_at DESC, id DESC) AS kept
      FROM helpdesk.bindings WHERE kc_sub IS NOT NULL) AS ranked
  WHERE id <> kept;
UPDATE helpdesk.bindings SET attempts = attempts + 1
  WHERE id IN (SELECT kept FROM helpdesk.bindings_of_one_login);
UPDATE helpdesk.admin_guard SET active_bindings = active_bindings - gone.bindings
  FROM (SELECT b.company_id, count(*) AS bindings
          FROM helpdesk.bindings b JOIN helpdesk.bindings_of_one_login o ON o.id = b.id
          WHERE b.tier = 'admin' AND b.state = 'active' GROUP BY b.company_id) AS gone
  WHERE gone.company_id = admin_guard.company_id;
INSERT INTO audit.helpdesk__events(company_id, actor, action, subject, payload)
  SELECT b.company_id, 'system:migration', 'binding.deleted', 'binding:' || b.id,
         jsonb_build_object('bindingKind', b.binding_kind, 'tier', b.tier, 'reason', 'BOUND_BY_ANOTHER_ROW')
    FROM helpdesk.bindings b JOIN helpdesk.bindings_of_one_login o ON o.id = b.id;
DELETE FROM helpdesk.bindings WHERE id IN (SELECT id FROM helpdesk.bindings_of_one_login);
DROP TABLE helpdesk.bindings_of_one_login;

-- Before each decision the bindings of the caller's login are looked for, and a worker reads them in this order.
CREATE UNIQUE INDEX bindings_login ON helpdesk.bindings(company_id, kc_sub, tier) WHERE kc_sub IS NOT NULL;

-- The last administrator whose member row has another login is none, and is not kept.
GRANT DELETE ON helpdesk.admin_guard TO platform_helpdesk;

-- Logins whose binding ended lately: a call that authz allowed by it just before is decided again.
CREATE TABLE helpdesk.unbound_logins(
  company_id uuid NOT NULL,
  kc_sub text NOT NULL,
  unbound_at timestamptz NOT NULL,
  PRIMARY KEY (company_id, kc_sub));
GRANT SELECT, INSERT, UPDATE, DELETE ON helpdesk.unbound_logins TO platform_helpdesk;
