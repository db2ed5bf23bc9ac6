-- helpdesk: claims go only to companies that have notices to post.

-- Whether a claim may take the notice now: it is pending, due and not leased. The worker sets it when the time has come, so
-- notices that do not have it yet, and those that the previous release adds, need no other change. No constraint ties it to
-- the state yet: the previous release, which may run beside this schema, settles notices without resetting it.
ALTER TABLE helpdesk.notices ADD COLUMN is_ready boolean NOT NULL DEFAULT false;
-- What a claim reads. The index notices_due stays for the previous release.
CREATE INDEX notices_ready ON helpdesk.notices(claim_group, company_id, next_attempt_at)
  WHERE is_ready AND state = 'pending';
-- What becomes ready next: when it is due and any lease has expired.
CREATE INDEX notices_waiting ON helpdesk.notices(claim_group, greatest(next_attempt_at, leased_until))
  WHERE NOT is_ready AND state = 'pending';
