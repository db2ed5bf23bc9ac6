-- Words are separated by white space and by every ASCII punctuation character, in what is indexed as in what is asked for.
-- The parser reads such characters as parts of addresses, paths and compounds: it needs time in the square of their number,
-- and yields the compound besides its parts.
--
-- The first 200,000 characters of a text are indexed. Of letters of up to four bytes, each word takes at most four bytes for
-- each of its characters and of the white space after it, so that they take at most 800,000 bytes; with the title's 800 they
-- fit into a text vector, which holds 1 MiB.
ALTER TABLE docs.contents DROP COLUMN search;
ALTER TABLE docs.contents ADD COLUMN search tsvector NOT NULL GENERATED ALWAYS AS (
  setweight(to_tsvector('simple',
    translate(title, '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', '                                ')), 'A')
    || setweight(to_tsvector('simple',
      translate(left(body, 200000), '!"#$%&''()*+,-./:;<=>?@[\]^_`{|}~', '                                ')), 'B')) STORED;
CREATE INDEX contents_search ON docs.contents USING gin (search);
