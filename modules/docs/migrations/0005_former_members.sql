-- How far the module has followed org's former members, whose names it forgets.

CREATE TABLE docs.former_members_seen(
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  seq bigint NOT NULL);
INSERT INTO docs.former_members_seen(seq) VALUES (0);
GRANT SELECT, UPDATE ON docs.former_members_seen TO platform_docs;
