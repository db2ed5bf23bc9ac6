-- notification: the addresses that subscriptions had before. Deliveries to them are removed with the member's account, too.

CREATE TABLE notification.former_addresses(
  company_id uuid NOT NULL,
  channel_id uuid NOT NULL REFERENCES notification.channels(id),
  member_id uuid NOT NULL,
  -- In lower case, as deliveries have it.
  email text NOT NULL,
  until timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (company_id, member_id, channel_id, email));
GRANT SELECT, INSERT, UPDATE, DELETE ON notification.former_addresses TO platform_notification;
