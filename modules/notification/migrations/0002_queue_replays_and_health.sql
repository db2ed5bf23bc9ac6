-- notification: deliveries are claimed channel by channel, dead ones can be replayed, and a channel has a health.

-- A claim goes from channel to channel and takes the oldest due jobs of each.
CREATE INDEX delivery_jobs_claim ON notification.delivery_jobs(claim_group, channel_id, next_attempt_at)
  WHERE state = 'pending';

-- A replay is a job of its own, with an id of its own, beside the dead one that it repeats; a dead job has one at most.
ALTER TABLE notification.delivery_jobs ADD COLUMN replay_of uuid;
ALTER TABLE notification.delivery_jobs DROP CONSTRAINT delivery_jobs_message_id_kind_target_key;
CREATE UNIQUE INDEX delivery_jobs_once ON notification.delivery_jobs(message_id, kind, target)
  WHERE replay_of IS NULL;
CREATE UNIQUE INDEX delivery_jobs_replay ON notification.delivery_jobs(replay_of) WHERE replay_of IS NOT NULL;
-- What is settled is removed when its time is over.
CREATE INDEX delivery_jobs_settled ON notification.delivery_jobs(state, settled_at) WHERE state <> 'pending';

-- How deliveries to a channel have ended of late. Apart from the channel, whose row messages lock.
CREATE TABLE notification.channel_health(
  channel_id uuid PRIMARY KEY REFERENCES notification.channels(id),
  consecutive_dead int NOT NULL DEFAULT 0 CHECK (consecutive_dead >= 0),
  dead_since timestamptz,
  last_success_at timestamptz,
  CHECK ((consecutive_dead = 0) = (dead_since IS NULL)));
GRANT SELECT, INSERT, UPDATE ON notification.channel_health TO platform_notification;
