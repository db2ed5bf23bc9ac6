"""Rows by SQL, as many as an installation may come to have, and a restart on them."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import running  # noqa: E402

AUTHZ = 8140
WAIT_S = 600
# Rows from number {first} up to and including {last}, in the company of the requests, {company}.
ROWS = {
    # Linked members with their tuple; surnames of nine letters.
    "members": """
        INSERT INTO org.members(id, company_id, code, display_name, email, user_id)
          SELECT gen_random_uuid(), '{company}', 'C' || n,
                 (ARRAY['Ada','Bob','Carol','Dave','Eve','Frank','Grace','Heidi'])[1 + n % 8] || ' ' || surname,
                 surname || n || '@example.test', 's' || n
            FROM generate_series({first}, {last}) n,
         LATERAL (SELECT initcap(left(translate(md5(n::text), '0123456789', 'ghijklmnop'), 9)) AS surname) named;
        INSERT INTO authz.tuple SELECT 'company', '{company}', 'member', 'user', 's' || n, '', 'org' FROM generate_series({first}, {last}) n;
    """,
    # Accounts at the provider, which identity knows.
    "accounts": """
        INSERT INTO idp.users(id, username, email, password_hash, created_at)
          SELECT md5('account' || n)::uuid, 'u' || n, 'u' || n || '@example.test', 'none', now() FROM generate_series({first}, {last}) n;
        INSERT INTO identity.users(kc_sub, kind, email, preferred_username)
          SELECT md5('account' || n)::uuid::text, 'user', 'u' || n || '@example.test', 'u' || n FROM generate_series({first}, {last}) n;
    """,
    # Documents' owners.
    "tuples": """
        INSERT INTO authz.tuple SELECT 'docs_document', md5('document' || n)::uuid::text, 'owner', 'user', 's' || n % 10000, '', 'grant'
          FROM generate_series({first}, {last}) n;
    """,
    "companies": """
        INSERT INTO org.units(id, company_id, type_key, depth, code, name)
          SELECT id, id, 'company', 0, 'N' || n, 'Company ' || n
            FROM (SELECT gen_random_uuid() AS id, n FROM generate_series({first}, {last}) n) made;
    """,
}
QUIET = """
    SET session_replication_role = replica;  -- no look-ups of foreign keys: the rows are right
    SET synchronous_commit = off; SET maintenance_work_mem = '512MB';
"""
# Kept by triggers, which the rows above do not fire.
KEPT = """
    INSERT INTO org.member_counts(company_id, members, active)
      SELECT company_id, count(*), count(*) FILTER (WHERE is_active) FROM org.members GROUP BY company_id
      ON CONFLICT (company_id) DO UPDATE SET members = excluded.members, active = excluded.active;
    VACUUM ANALYZE;
"""


def rows(kind, company, first, last, more=""):
    """Statements that add rows of one kind and then `more`."""
    return QUIET + ROWS[kind].format(company=company, first=first, last=last) + more + KEPT


def fill(platform, kind, company, first, last):
    platform.sql(rows(kind, company, first, last))


def restart(platform):
    """Seconds to the platform's readiness, and until authz decides from memory."""
    platform.process.terminate()
    platform.process.wait(60)
    begun = time.monotonic()
    platform.__enter__()
    ready, deadline = time.monotonic() - begun, begun + WAIT_S
    while "platform_authz_memory_loaded{service=\"authz\"} 1" not in platform.metrics(AUTHZ):
        if time.monotonic() > deadline:
            raise running.Broken(f"authz does not decide from memory after {WAIT_S} s")
        time.sleep(0.05)
    return ready, time.monotonic() - begun
