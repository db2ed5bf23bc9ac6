-- The directory lists active members by name. Former members all have one name; a page past them read every one of them.
CREATE INDEX members_directory ON org.members(company_id, display_name COLLATE "C", id) WHERE is_active;
