-- PostgreSQL's parser takes server01.example.com for one word, skips what looks like a tag, and on some punctuation needs
-- time in the square of the text. From now on every ASCII punctuation character counts as a space, in texts and in searches.
-- As in 0004, the words are written in the order in which they are searched.
CREATE TABLE helpdesk.ticket_words_again(
  ticket_id uuid NOT NULL,
  company_id uuid NOT NULL,
  number bigint NOT NULL,
  words tsvector NOT NULL);
INSERT INTO helpdesk.ticket_words_again(ticket_id, company_id, number, words)
  SELECT t.id, t.company_id, t.number, array_to_tsvector((
      SELECT array_agg(right(t.company_id::text, 8) || '.' || to_hex(t.number / 4096) || '.' || left(word.lexeme, 400))
        FROM unnest(to_tsvector('simple', t.number || ' ' || translate(t.title || ' ' || t.description,
          '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', repeat(' ', 32)))) AS word))
    FROM helpdesk.tickets t ORDER BY t.company_id, t.number;
DROP TABLE helpdesk.ticket_words;
ALTER TABLE helpdesk.ticket_words_again RENAME TO ticket_words;
ALTER TABLE helpdesk.ticket_words ADD CONSTRAINT ticket_words_pkey PRIMARY KEY (ticket_id);
ALTER TABLE helpdesk.ticket_words ADD CONSTRAINT ticket_words_company_id_ticket_id_fkey
  FOREIGN KEY (company_id, ticket_id) REFERENCES helpdesk.tickets(company_id, id);
CREATE INDEX ticket_words_search ON helpdesk.ticket_words USING gin(words) WITH (fastupdate = off);
GRANT SELECT, INSERT ON helpdesk.ticket_words TO platform_helpdesk;
