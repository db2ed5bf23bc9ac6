-- Logging in by e-mail address: an address names one account, whatever its case.

CREATE UNIQUE INDEX users_email ON idp.users(lower(email));
