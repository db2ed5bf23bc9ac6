-- notification: companies take turns in claims, whatever the number of their channels.

-- What a claim reads: the companies with ready deliveries, the channels of each, the deliveries of each.
CREATE INDEX delivery_jobs_ready_by_company ON notification.delivery_jobs(claim_group, company_id, channel_id, next_attempt_at)
  WHERE is_ready AND state = 'pending';
-- No statement reads this one any more, nor does any of the previous release.
DROP INDEX notification.delivery_jobs_ready;
