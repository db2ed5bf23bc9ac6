-- Pages of the list of all users and of the disabled ones, for those who look at very many: the rows before a page are passed
-- over in the index.
CREATE INDEX users_people ON idp.users(username) WHERE service_client IS NULL;
CREATE INDEX users_disabled ON idp.users(username) WHERE NOT enabled;
