-- The member directory of a large company: searching a name, an address or a code anywhere in it, and counting.

-- Three letters and more of a search are found by their trigrams. The three fields are one text with a line break between
-- them, which no search holds, so that a match never spans two of them. A PostgreSQL without the extension, or an owner
-- who may not add it, searches more slowly and as rightly.
DO $search$
DECLARE
  home name;
BEGIN
  IF EXISTS (SELECT FROM pg_catalog.pg_available_extensions WHERE name = 'pg_trgm') THEN
    -- The schemas' owner may not add extensions to the database; who runs the migrations may.
    RESET ROLE;
    CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA org;
    SET ROLE platform_owner;
    SELECT n.nspname INTO home FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
      WHERE e.extname = 'pg_trgm';
    EXECUTE format(
      'CREATE INDEX members_search ON org.members USING gin '
      '((display_name || E''\n'' || coalesce(email, '''') || E''\n'' || code) %I.gin_trgm_ops)', home);
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE NOTICE 'pg_trgm may not be added: the directory searches without it';
END
$search$;

-- Counts the active members of a company without reading their rows.
CREATE INDEX members_active ON org.members(company_id) WHERE is_active;
