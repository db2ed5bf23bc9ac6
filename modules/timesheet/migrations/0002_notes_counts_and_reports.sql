-- timesheet: notes of entries, weeks that are saved whole, lists and reports of companies with very many rows.

ALTER TABLE timesheet.entries ADD COLUMN note text CHECK (length(note) <= 500);
-- What was approved can always be shown, its notes too.
ALTER TABLE timesheet.submission_entries ADD COLUMN note text;
-- A week that is saved whole drops the entries that it does not name.
GRANT DELETE ON timesheet.entries TO platform_timesheet;

-- Hours of a company by day, for reports.
CREATE INDEX entries_day ON timesheet.entries(company_id, entry_date);

-- The order of every list of submissions, with the id, so that pages are skipped without touching their rows.
DROP INDEX timesheet.submissions_company;
CREATE INDEX submissions_company
  ON timesheet.submissions(company_id, week_start DESC, member_id, version_number DESC) INCLUDE (id);
-- The same order among those of one approver, and among those of nobody. What a change of approver looks for is the
-- member's own.
DROP INDEX timesheet.submissions_approver;
CREATE INDEX submissions_approver
  ON timesheet.submissions(company_id, assigned_approver_member_id, week_start DESC, member_id, version_number DESC)
  INCLUDE (id);
CREATE INDEX submissions_unassigned
  ON timesheet.submissions(company_id, week_start DESC, member_id, version_number DESC) INCLUDE (id)
  WHERE assigned_approver_member_id IS NULL;

-- How many submissions name an approver: a list tells its length, and counting a hundred thousand rows for each page
-- takes longer than the page. The nil id stands for nobody. Changed in the transaction that changes the submissions.
CREATE TABLE timesheet.submission_counts(
  company_id uuid NOT NULL,
  approver_member_id uuid NOT NULL,
  submissions bigint NOT NULL CHECK (submissions >= 0),
  PRIMARY KEY (company_id, approver_member_id));
GRANT SELECT, INSERT, UPDATE ON timesheet.submission_counts TO platform_timesheet;
INSERT INTO timesheet.submission_counts(company_id, approver_member_id, submissions)
  SELECT company_id, coalesce(assigned_approver_member_id, '00000000-0000-0000-0000-000000000000'), count(*)
  FROM timesheet.submissions GROUP BY 1, 2;
