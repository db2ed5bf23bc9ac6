-- The directory is searched by what it shows: name and address. A code is no longer part of the searched text, since who may
-- not read codes must not find members by them either.

-- Three letters and more, as 0004 has it, without the code.
DROP INDEX IF EXISTS org.members_search;
DO $search$
DECLARE
  home name;
BEGIN
  SELECT n.nspname INTO home FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
    WHERE e.extname = 'pg_trgm';
  IF home IS NOT NULL THEN
    EXECUTE format(
      'CREATE INDEX members_search ON org.members USING gin ((display_name || E''\n'' || coalesce(email, '''')) %I.gin_trgm_ops)',
      home);
  END IF;
END
$search$;

-- One or two letters have no trigram. The letters of a text and its pairs of neighbours, in lower case: pairs from the first
-- letter on, then from the second. U+0001 separates them; no text has it.
CREATE FUNCTION org.letters_and_pairs(text) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN
  pg_catalog.array_remove(
    pg_catalog.string_to_array(pg_catalog.lower($1), NULL)
    || pg_catalog.string_to_array(pg_catalog.regexp_replace(pg_catalog.lower($1), '(..)', E'\\1\x01', 'g'), E'\x01')
    || pg_catalog.string_to_array(
      pg_catalog.regexp_replace(pg_catalog.substr(pg_catalog.lower($1), 2), '(..)', E'\\1\x01', 'g'), E'\x01'),
    '');
REVOKE ALL ON FUNCTION org.letters_and_pairs(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION org.letters_and_pairs(text) TO platform_org;
CREATE INDEX members_letters ON org.members
  USING gin (org.letters_and_pairs(display_name || E'\n' || coalesce(email, ''))) WHERE is_active;
