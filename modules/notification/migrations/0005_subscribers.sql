-- A subscription is the login's that set it, and ends when its member row is linked to another one. Those that were set
-- before belong to the login that the row has.
ALTER TABLE notification.subscriptions ADD COLUMN kc_sub text;
