-- How many members each company has. The directory tells the exact total on every page, and counting a hundred thousand
-- rows takes longer than reading the page. Triggers keep the counts in the transaction of the change, whoever makes it;
-- the service can only read them.

CREATE TABLE org.member_counts(
  company_id uuid PRIMARY KEY,
  members bigint NOT NULL CHECK (members >= 0),
  active bigint NOT NULL CHECK (active BETWEEN 0 AND members));

CREATE FUNCTION org.count_members() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- What moves no count (a link, a name) must not touch the company's row.
  IF TG_OP = 'INSERT' THEN
    INSERT INTO org.member_counts AS c(company_id, members, active)
      SELECT company_id, count(*), count(*) FILTER (WHERE is_active) FROM added GROUP BY company_id ORDER BY company_id
      ON CONFLICT (company_id) DO UPDATE SET members = c.members + excluded.members, active = c.active + excluded.active;
  ELSIF TG_OP = 'UPDATE' THEN
    IF EXISTS (SELECT FROM added a WHERE NOT EXISTS (SELECT FROM removed r WHERE (r.id, r.company_id) = (a.id, a.company_id))) THEN
      RAISE EXCEPTION 'a member stays in its company';
    END IF;
    UPDATE org.member_counts c SET active = c.active + moved.active
      FROM (SELECT a.company_id, sum(a.is_active::int - r.is_active::int) AS active
              FROM added a JOIN removed r ON r.id = a.id WHERE a.is_active <> r.is_active GROUP BY a.company_id) AS moved
      WHERE c.company_id = moved.company_id AND moved.active <> 0;
  ELSE
    UPDATE org.member_counts c SET members = c.members - gone.members, active = c.active - gone.active
      FROM (SELECT company_id, count(*) AS members, count(*) FILTER (WHERE is_active) AS active
              FROM removed GROUP BY company_id) AS gone
      WHERE c.company_id = gone.company_id;
  END IF;
  RETURN NULL;
END
$$;
REVOKE ALL ON FUNCTION org.count_members() FROM PUBLIC;

CREATE TRIGGER members_added AFTER INSERT ON org.members
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION org.count_members();
CREATE TRIGGER members_changed AFTER UPDATE ON org.members
  REFERENCING NEW TABLE AS added OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION org.count_members();
CREATE TRIGGER members_removed AFTER DELETE ON org.members
  REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION org.count_members();

-- The triggers hold writers off until this is committed.
INSERT INTO org.member_counts(company_id, members, active)
  SELECT company_id, count(*), count(*) FILTER (WHERE is_active) FROM org.members GROUP BY company_id;
GRANT SELECT ON org.member_counts TO platform_org;

-- It was there for counting only.
DROP INDEX org.members_active;
