-- 0003 wrote the words again in whatever order the tickets were read, so the rows of one segment of 4096 numbers lay all over
-- the table and a search read a block for nearly each of them. Here they are written once more, in the order in which
-- they are searched. New tickets follow at the end, which is their place.
CREATE TABLE helpdesk.ticket_words_in_order(
  ticket_id uuid NOT NULL,
  company_id uuid NOT NULL,
  number bigint NOT NULL,
  words tsvector NOT NULL);
INSERT INTO helpdesk.ticket_words_in_order(ticket_id, company_id, number, words)
  SELECT ticket_id, company_id, number, words FROM helpdesk.ticket_words ORDER BY company_id, number;
DROP TABLE helpdesk.ticket_words;
ALTER TABLE helpdesk.ticket_words_in_order RENAME TO ticket_words;
ALTER TABLE helpdesk.ticket_words ADD CONSTRAINT ticket_words_pkey PRIMARY KEY (ticket_id);
ALTER TABLE helpdesk.ticket_words ADD CONSTRAINT ticket_words_company_id_ticket_id_fkey
  FOREIGN KEY (company_id, ticket_id) REFERENCES helpdesk.tickets(company_id, id);
CREATE INDEX ticket_words_search ON helpdesk.ticket_words USING gin(words) WITH (fastupdate = off);
GRANT SELECT, INSERT ON helpdesk.ticket_words TO platform_helpdesk;
