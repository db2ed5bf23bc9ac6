-- notification: claims go only to channels that have deliveries to start. A thousand channels whose deliveries wait for their
-- next attempt cost a claim nothing.

-- Whether a claim may take the job now: it is pending, due and not leased. The worker sets it when the time has come, so jobs
-- that do not have it yet, and those that the previous release adds, need no other change. No constraint ties it to the
-- state yet: the previous release, which may run beside this schema, settles jobs without resetting it.
ALTER TABLE notification.delivery_jobs ADD COLUMN is_ready boolean NOT NULL DEFAULT false;
-- What a claim reads. The index delivery_jobs_claim stays for the previous release.
CREATE INDEX delivery_jobs_ready ON notification.delivery_jobs(claim_group, channel_id, next_attempt_at)
  WHERE is_ready AND state = 'pending';
-- What becomes ready next: when it is due and any lease has expired.
CREATE INDEX delivery_jobs_waiting ON notification.delivery_jobs(claim_group, greatest(next_attempt_at, leased_until))
  WHERE NOT is_ready AND state = 'pending';
