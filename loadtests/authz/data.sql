-- N tuples (:n) of documents, nested groups and users, the same by formula for every product:
-- a tenth of N documents with anchor, owner, three viewers and two groups; a twenty-fifth of N groups in five levels, each
-- with four users and (but for the last level) four groups of the next level; owners fill up to N.
CREATE OR REPLACE FUNCTION pg_temp.name(text, bigint) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT md5($1 || $2)::uuid::text $$;
CREATE UNLOGGED TABLE load_tuple(a text, b text, c text, d text, e text, f text);
INSERT INTO load_tuple
  SELECT 'lt_doc', pg_temp.name('d', d), 'company_module', 'company_module', :'company' || '/lt', '' FROM generate_series(0, :n / 10 - 1) d
  UNION ALL SELECT 'lt_doc', pg_temp.name('d', d), 'owner', 'user', pg_temp.name('u', d % (:n / 50)), '' FROM generate_series(0, :n / 10 - 1) d
  UNION ALL SELECT 'lt_doc', pg_temp.name('d', d), 'viewer', 'user', pg_temp.name('v', (d * 3 + k) % (:n / 50)), ''
    FROM generate_series(0, :n / 10 - 1) d, generate_series(0, 2) k
  UNION ALL SELECT 'lt_doc', pg_temp.name('d', d), 'viewer', 'group', pg_temp.name('g0-', (d * 3 + k) % (:n / 125)), 'member'
    FROM generate_series(0, :n / 10 - 1) d, generate_series(0, 1) k
  UNION ALL SELECT 'group', pg_temp.name('g' || l || '-', i), 'member', 'group', pg_temp.name('g' || (l + 1) || '-', (i * 4 + k * 7919) % (:n / 125)), 'member'
    FROM generate_series(0, :n / 125 - 1) i, generate_series(0, 3) l, generate_series(0, 3) k
  UNION ALL SELECT 'group', pg_temp.name('g' || l || '-', i), 'member', 'user', pg_temp.name('m' || l || '-', (i * 4 + k) % (:n / 100)), ''
    FROM generate_series(0, :n / 125 - 1) i, generate_series(0, 4) l, generate_series(0, 3) k;
INSERT INTO load_tuple
  SELECT 'lt_doc', pg_temp.name('d', d), 'owner', 'user', pg_temp.name('w', d), ''
    FROM generate_series(0, :n - (SELECT count(*) FROM (SELECT DISTINCT * FROM load_tuple) x) - 1) d;
