-- timesheet: pages of very long lists of submissions.

-- How many submissions of a week name an approver, or nobody (the nil id), and how many there are at all (the id of ones
-- only): a list tells its length, and a page deep in it begins at its own week instead of reading all the weeks before.
-- Changed in the transaction that changes the submissions. It takes the place of the counts without weeks, which go, so
-- that a process of before cannot change the one and not the other.
CREATE TABLE timesheet.submission_weeks(
  company_id uuid NOT NULL,
  approver_member_id uuid NOT NULL,
  week_start date NOT NULL,
  submissions bigint NOT NULL CHECK (submissions >= 0),
  PRIMARY KEY (company_id, approver_member_id, week_start));
GRANT SELECT, INSERT, UPDATE ON timesheet.submission_weeks TO platform_timesheet;
INSERT INTO timesheet.submission_weeks(company_id, approver_member_id, week_start, submissions)
  SELECT company_id, coalesce(assigned_approver_member_id, '00000000-0000-0000-0000-000000000000'), week_start, count(*)
  FROM timesheet.submissions GROUP BY 1, 2, 3;
INSERT INTO timesheet.submission_weeks(company_id, approver_member_id, week_start, submissions)
  SELECT company_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff', week_start, count(*)
  FROM timesheet.submissions GROUP BY 1, 3;
DROP TABLE timesheet.submission_counts;
