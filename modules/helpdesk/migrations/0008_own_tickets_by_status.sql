-- A list of one's own tickets of a status reads the status from the index, and only the tickets that it shows from the table.

DROP INDEX helpdesk.tickets_of_reporter;
DROP INDEX helpdesk.tickets_of_member;
DROP INDEX helpdesk.tickets_of_position;
DROP INDEX helpdesk.tickets_of_group;
CREATE INDEX tickets_of_reporter ON helpdesk.tickets(company_id, reporter_member_id, updated_at DESC, id) INCLUDE (status);
CREATE INDEX tickets_of_member ON helpdesk.tickets(company_id, assignee_member_id, updated_at DESC, id) INCLUDE (status)
  WHERE assignee_member_id IS NOT NULL;
CREATE INDEX tickets_of_position ON helpdesk.tickets(company_id, assignee_position_id, updated_at DESC, id) INCLUDE (status)
  WHERE assignee_position_id IS NOT NULL;
CREATE INDEX tickets_of_group ON helpdesk.tickets(company_id, assignee_group_id, updated_at DESC, id) INCLUDE (status)
  WHERE assignee_group_id IS NOT NULL;
