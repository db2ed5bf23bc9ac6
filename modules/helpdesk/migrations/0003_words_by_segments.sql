-- Words stand behind a sign of their company and of their segment of 4096 numbers, so that a search asks the newest
-- segment first and no other company's words. Whatever a ticket's age, its number is among them.
DROP INDEX helpdesk.ticket_words_search;
ALTER TABLE helpdesk.ticket_words ADD COLUMN number bigint;
UPDATE helpdesk.ticket_words SET number = t.number, words = array_to_tsvector((
    SELECT array_agg(right(t.company_id::text, 8) || '.' || to_hex(t.number / 4096) || '.' || left(word.lexeme, 400))
      FROM unnest(to_tsvector('simple', t.number || ' ' || t.title || ' ' || t.description)) AS word))
  FROM helpdesk.tickets t WHERE t.id = ticket_words.ticket_id;
ALTER TABLE helpdesk.ticket_words ALTER COLUMN number SET NOT NULL;
-- Each segment that is asked would read the list of what is not sorted in yet.
CREATE INDEX ticket_words_search ON helpdesk.ticket_words USING gin(words) WITH (fastupdate = off);

-- The keys that wait for their row's answer are found by the row; those that have one are in no part of it.
CREATE INDEX idempotency_keys_waiting ON helpdesk.idempotency_keys(company_id, resource_id)
  WHERE status IS NULL AND resource_id IS NOT NULL;
